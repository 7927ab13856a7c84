package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"drydock.dev/test/cluster/config"
)

// api reads from an API server. It does not use client-go, so that this command compiles and starts quickly.
type api struct {
	server, token string
	client        *http.Client
}

func newAPI(c config.Cluster) (api, error) {
	authority, err := os.ReadFile(c.Path("pki", "ca.crt"))
	if err != nil {
		return api{}, fmt.Errorf("reading the cluster's authority: %w", err)
	}
	tokens, err := c.Tokens()
	if err != nil {
		return api{}, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}
	return api{c.APIServer(), tokens[config.Administrator.Name], &http.Client{Transport: transport}}, nil
}

// get reads an object into out. If out is nil, it only checks the status code.
func (a api) get(ctx context.Context, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, err)
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s", path, response.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// ready checks the API server's readiness endpoint.
func (a api) ready(ctx context.Context) error { return a.get(ctx, "/readyz", nil) }

// healthy checks the health endpoint of a component.
func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s", url, response.Status)
	}
	return nil
}

// has returns a check that the object exists.
func (a api) has(path string) func(context.Context) error {
	return func(ctx context.Context) error { return a.get(ctx, path, nil) }
}

// nodeReady checks whether the node can run pods.
func (a api) nodeReady(ctx context.Context) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := a.get(ctx, "/api/v1/nodes/"+config.NodeName, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return fmt.Errorf("the node is not ready: %s", condition.Message)
	}
	return errors.New("the node has not reported yet")
}

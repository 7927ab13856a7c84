// Package prom asks the administrator's Prometheus. It follows no redirect, reads a bounded answer, and trusts nothing in it.
package prom

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/podprobe"
)

// Tenant is the part of the URL that stands for the namespace of a set.
const Tenant = "{namespace}"

// Server is the Prometheus that the settings name.
type Server struct{ url, tokenFile, caFile string }

// New returns the Prometheus of the settings.
func New(settings api.Settings) Server {
	return Server{url: settings.Prometheus, tokenFile: settings.PromTokenFile, caFile: settings.PromCAFile}
}

// Known reports whether the settings name one.
func (s Server) Known() bool { return s.url != "" }

// Tenants reports whether the server keeps namespaces apart by itself.
func (s Server) Tenants() bool { return strings.Contains(s.url, Tenant) }

// address returns the URL of an instant query for the namespace.
func (s Server) address(namespace string) (string, error) {
	address, err := url.Parse(strings.ReplaceAll(s.url, Tenant, url.QueryEscape(namespace)))
	if err != nil {
		return "", fmt.Errorf("reading DRYDOCK_PROMETHEUS: %w", err)
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + "/api/v1/query"
	return address.String(), nil
}

// authorize shows the token, which is read each time: that of a ServiceAccount is renewed.
func (s Server) authorize(request *http.Request) error {
	if s.tokenFile == "" {
		return nil
	}
	token, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return fmt.Errorf("reading DRYDOCK_PROMETHEUS_TOKEN_FILE: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return nil
}

// client trusts the authorities of the machine, or those in the administrator's file.
func (s Server) client() (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if s.caFile != "" {
		text, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading DRYDOCK_PROMETHEUS_CA_FILE: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, errors.New("DRYDOCK_PROMETHEUS_CA_FILE has no certificate in PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{Transport: transport, CheckRedirect: podprobe.NoRedirect}, nil
}

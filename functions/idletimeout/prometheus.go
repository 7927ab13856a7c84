package idletimeout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/podprobe"
)

// prometheus asks the administrator's Prometheus. The author of a StatefulSet writes the query, so nothing of the answer but its
// meaning may reach the set: an error message of Prometheus can quote series of other tenants.
type prometheus struct {
	url        string
	namespaces []string
	tokenFile  string
	caFile     string
	log        *slog.Logger
}

const (
	// tenant is the part of the URL that stands for the set's namespace.
	tenant = "{namespace}"
)

func newPrometheus(settings api.Settings, log *slog.Logger) *prometheus {
	return &prometheus{url: settings.Prometheus, namespaces: settings.PromNamespaces, tokenFile: settings.PromTokenFile,
		caFile: settings.PromCAFile, log: log}
}

// allows reports whether sets of the namespace may ask: the administrator names the namespace, or the URL keeps tenants apart.
func (p *prometheus) allows(namespace string) bool {
	return strings.Contains(p.url, tenant) || slices.Contains(p.namespaces, namespace) || slices.Contains(p.namespaces, "*")
}

// ask takes any value above zero for in use. A query without a result says nothing.
func (p *prometheus) ask(ctx context.Context, namespace, query string) (bool, error) {
	switch {
	case p.url == "":
		return false, errors.New("no Prometheus is known; set DRYDOCK_PROMETHEUS to its URL")
	case !p.allows(namespace):
		return false, fmt.Errorf("sets of namespace %s may not ask Prometheus; "+
			"add it to DRYDOCK_PROMETHEUS_NAMESPACES, or put %s into DRYDOCK_PROMETHEUS", namespace, tenant)
	}
	request, err := p.request(ctx, namespace, query)
	if err != nil {
		return false, p.hide(ctx, namespace, "prometheus cannot be asked; look at the settings DRYDOCK_PROMETHEUS*", err)
	}
	client, err := p.client()
	if err != nil {
		return false, p.hide(ctx, namespace, "prometheus cannot be asked; look at the settings DRYDOCK_PROMETHEUS*", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return false, p.hide(ctx, namespace, "prometheus does not answer", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return false, p.hide(ctx, namespace, "prometheus does not end its answer", err)
	}
	return above(response.StatusCode, body)
}

// hide logs an error for the administrator, and returns what the author of the set may know.
func (p *prometheus) hide(ctx context.Context, namespace, known string, err error) error {
	p.log.WarnContext(ctx, "asking Prometheus", "namespace", namespace, "error", err.Error())
	return errors.New(known)
}

func (p *prometheus) request(ctx context.Context, namespace, query string) (*http.Request, error) {
	address, err := url.Parse(strings.ReplaceAll(p.url, tenant, url.QueryEscape(namespace)))
	if err != nil {
		return nil, fmt.Errorf("reading DRYDOCK_PROMETHEUS: %w", err)
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + "/api/v1/query"
	form := url.Values{"query": {query}, "limit": {strconv.Itoa(mostSeries + 1)}}
	if deadline, ok := ctx.Deadline(); ok {
		form.Set("timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"ms")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if p.tokenFile == "" {
		return request, nil
	}
	token, err := os.ReadFile(p.tokenFile) // each time: a token of a ServiceAccount is renewed
	if err != nil {
		return nil, fmt.Errorf("reading DRYDOCK_PROMETHEUS_TOKEN_FILE: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return request, nil
}

// client trusts the authorities of the machine, or those in the administrator's file.
func (p *prometheus) client() (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if p.caFile != "" {
		text, err := os.ReadFile(p.caFile)
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

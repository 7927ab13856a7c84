// Package prom queries the administrator's Prometheus. It follows no redirect, reads a bounded answer, and does not trust the answer's
// content.
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

// NamespacePlaceholder is the placeholder in the URL for the namespace of a set.
const NamespacePlaceholder = "{namespace}"

// Server is the Prometheus from the settings.
type Server struct{ url, tokenFile, caFile string }

// New returns the Prometheus from the settings.
func New(settings api.Settings) Server {
	return Server{url: settings.Prometheus, tokenFile: settings.PromTokenFile, caFile: settings.PromCAFile}
}

// IsConfigured reports whether the settings name a Prometheus.
func (s Server) IsConfigured() bool { return s.url != "" }

// SeparatesNamespaces reports whether the server separates namespaces: its URL contains the namespace.
func (s Server) SeparatesNamespaces() bool { return strings.Contains(s.url, NamespacePlaceholder) }

// address returns the URL for instant queries about the namespace.
func (s Server) address(namespace string) (string, error) {
	address, err := url.Parse(strings.ReplaceAll(s.url, NamespacePlaceholder, url.QueryEscape(namespace)))
	if err != nil { // its text has the whole URL, which may have a password
		return "", errors.New("the setting DRYDOCK_PROMETHEUS is not a URL: check its characters and its port")
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + "/api/v1/query"
	return address.String(), nil
}

// authorize adds the token to the request. It reads the file for each request, because the token of a ServiceAccount is rotated.
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

// client returns a client that trusts the certificate authorities of the machine, or of the administrator's file.
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

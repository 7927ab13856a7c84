// Package prom queries the administrator's Prometheus. It follows no redirect, reads a bounded answer, and does not trust the answer's
// content.
package prom

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

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

var (
	// ErrSettings reports that the settings are wrong, and Prometheus was not queried.
	ErrSettings = errors.New("look at the settings DRYDOCK_PROMETHEUS*")
	// ErrUnfinished reports that the answer broke off after its beginning.
	ErrUnfinished = errors.New("the answer has no end")
)

// Query sends an instant query for the namespace, and returns the status code and body of the answer (Prometheus HTTP API). It requests at
// most series+1 series, and reads at most that many bytes. An error about the settings is ErrSettings, a broken answer ErrUnfinished.
func (s Server) Query(ctx context.Context, namespace, query string, series int, bytes int64) (code int, body []byte, err error) {
	request, err := s.request(ctx, namespace, query, series)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	client, err := s.client()
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() // nothing was written
	if body, err = io.ReadAll(io.LimitReader(response.Body, bytes)); err != nil {
		err = fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return response.StatusCode, body, err
}

// request returns the HTTP request. Its limit is one series more than allowed, so that Read detects an answer with too many.
func (s Server) request(ctx context.Context, namespace, query string, series int) (*http.Request, error) {
	address, err := s.address(namespace)
	if err != nil {
		return nil, err
	}
	form := url.Values{"query": {query}, "limit": {strconv.Itoa(series + 1)}}
	if deadline, ok := ctx.Deadline(); ok {
		form.Set("timeout", strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)+"ms")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return request, s.authorize(request)
}

// Sample is one series of an answer with its value.
type Sample struct {
	// Labels is nil for a scalar.
	Labels map[string]string
	Value  float64
	// At is the time of the value.
	At time.Time
}

// Read returns the samples of an answer to an instant query. It returns an error for more than that number of series. Its errors quote only
// the status code, because an error message of Prometheus can contain series of other tenants.
func Read(code int, body []byte, series int) ([]Sample, error) {
	var answer struct {
		Status   string
		Warnings []json.RawMessage
		Data     struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != 200 || answer.Status != "success" {
		return nil, fmt.Errorf("prometheus answers %d, and no result; try the query there", code)
	}
	if len(answer.Warnings) > 0 { // part of the result may be missing
		return nil, errors.New("prometheus warns about the result; try the query there")
	}
	var rows []row
	var err error
	switch answer.Data.ResultType {
	case "vector":
		rows, err = readRows(answer.Data.Result, series+1)
	case "scalar":
		rows = make([]row, 1)
		err = json.Unmarshal(answer.Data.Result, &rows[0].Value)
	default:
		return nil, errors.New("prometheus answers with neither a vector nor a scalar; change the query")
	}
	switch {
	case err != nil:
		return nil, errors.New("prometheus answers with a result that cannot be read; try the query there")
	case len(rows) == 0:
		return nil, errors.New("prometheus has no result for the query")
	case len(rows) > series:
		return nil, fmt.Errorf("prometheus has more than %d series for the query; aggregate them, as with sum() or max()", series)
	}
	samples := make([]Sample, len(rows))
	for i, row := range rows {
		if samples[i], err = row.sample(); err != nil {
			return nil, err
		}
	}
	return samples, nil
}

// readRows returns at most that many elements of the list. An element of five bytes takes many times as much when it is decoded.
func readRows(list []byte, most int) ([]row, error) {
	d := json.NewDecoder(bytes.NewReader(list))
	switch start, err := d.Token(); {
	case err != nil:
		return nil, err
	case start == nil:
		return nil, nil
	case start != json.Delim('['):
		return nil, fmt.Errorf("%v instead of a list", start)
	}
	var rows []row
	for d.More() && len(rows) < most {
		r := row{}
		if err := d.Decode(&r); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// row is a sample in JSON. Its value is a pair: the time as a number, and the value as a string.
type row struct {
	Metric map[string]string
	Value  [2]any
}

// sample returns the row as a Sample.
func (r row) sample() (Sample, error) {
	text, _ := r.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		return Sample{}, errors.New("prometheus answers with a value that is no number; change the query")
	}
	seconds, _ := r.Value[0].(float64)
	return Sample{Labels: r.Metric, Value: value, At: time.UnixMilli(int64(seconds * 1000))}, nil
}

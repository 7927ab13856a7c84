package export

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"time"
)

// collector is where the telemetry of one signal goes.
type collector struct {
	endpoint     *url.URL
	certificates *tls.Config // nil for those of the system
	timeout      time.Duration
}

// client returns the HTTP client of the exporter.
func (c collector) client() *http.Client {
	next := http.DefaultTransport.(*http.Transport).Clone() // package engine replaces it by one of this type, later
	if c.certificates != nil {
		next.TLSClientConfig = c.certificates
	}
	return &http.Client{Timeout: c.timeout, Transport: transport{endpoint: c.endpoint, next: next}, CheckRedirect: refuseRedirect}
}

// refuseRedirect makes a redirect the final answer, which fails the export. The transport would send the next request to the endpoint
// again, and another host must not get the password.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport sends each request to the endpoint as it is written. The exporters drop its user, its password and its query, and replace a
// missing path.
type transport struct {
	endpoint *url.URL
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL = t.endpoint
	if user := t.endpoint.User; user != nil && r.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, temporary{err}
	}
	return response, nil
}

// temporary marks a failed connection: the exporters try again only after an error with this method. A collector that restarts then loses
// nothing.
type temporary struct{ error }

// Temporary implements the interface that url.Error asks for.
func (temporary) Temporary() bool { return true }

// Unwrap returns the error of the connection.
func (t temporary) Unwrap() error { return t.error }

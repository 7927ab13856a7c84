package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/spf13/pflag"

	"drydock.dev/shared/text"
)

const (
	// sendTimeout is longer than a cold start of a function behind a synchronous Broker.
	sendTimeout = 60 * time.Second
	// maxAnswer limits the bytes of an answer in an error message.
	maxAnswer = 512
)

// sinkFlags are the flags that name the destination of events.
type sinkFlags struct {
	broker    string
	url       string
	tokenFile string
}

func (f *sinkFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.broker, "broker", "drydock/default", "NAMESPACE/NAME of the Broker; the API server's proxy passes events on to it")
	flags.StringVar(&f.url, "url", "", "send to this URL instead, for example http://127.0.0.1:9091/drydock/default")
	flags.StringVar(&f.tokenFile, "token-file", "", "with --url: a file with the token of the sender, for the orders sleep, wake, activity "+
		"and retry. Make one with kubectl create token")
}

// sink is the destination of events.
type sink struct {
	url    string
	name   string // for messages
	client *http.Client
	token  string // a bearer token, empty for none
}

// open returns the sink of the flags. It sends the cluster's credentials only to the API server.
func (f *sinkFlags) open(ctx context.Context, r *raw) (*sink, error) {
	if f.url != "" {
		target, err := url.Parse(f.url)
		if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
			return nil, fmt.Errorf("--url %q is not the URL of a Broker. Write it as http://127.0.0.1:9091/drydock/default", f.url)
		}
		token, err := f.token()
		return &sink{url: f.url, name: target.Redacted(), client: &http.Client{}, token: token}, err
	}
	if f.tokenFile != "" {
		return nil, fmt.Errorf("--token-file needs --url, because the API server's proxy and Brokers do not pass a token on")
	}
	namespace, name, ok := strings.Cut(f.broker, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("--broker %q is not NAMESPACE/NAME. The Broker of config/ is drydock/default", f.broker)
	}
	address, err := r.brokerAddress(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	path, err := proxyPath(address)
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w", f.broker, err)
	}
	return &sink{url: r.url(path), name: "broker " + f.broker, client: r.client()}, nil
}

func (f *sinkFlags) token() (string, error) {
	if f.tokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", fmt.Errorf("reading --token-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// brokerAddress returns the URL where the Broker receives events.
func (r *raw) brokerAddress(ctx context.Context, namespace, name string) (string, error) {
	const instead = "send to the standalone Drydock with --url: it receives events on port 9091 of the pod that holds the Lease " +
		"drydock-standalone"
	body, found, err := r.get(ctx, "/apis/eventing.knative.dev/v1/namespaces/"+url.PathEscape(namespace)+"/brokers/"+url.PathEscape(name))
	switch {
	case err != nil:
		return "", fmt.Errorf("reading Broker %s/%s: %w", namespace, name, err)
	case !found:
		return "", fmt.Errorf("there is no Broker %s/%s. Name another with --broker, or %s", namespace, name, instead)
	}
	var broker struct {
		Status struct {
			Address struct{ URL string }
		}
	}
	if err := json.Unmarshal(body, &broker); err != nil {
		return "", fmt.Errorf("reading Broker %s/%s: %w", namespace, name, err)
	}
	if broker.Status.Address.URL == "" {
		return "", fmt.Errorf("broker %s/%s is not ready: it has no address. Find the cause with kubectl describe broker -n %s %s",
			namespace, name, namespace, name)
	}
	return broker.Status.Address.URL, nil
}

// proxyPath returns the path of the API server's proxy to a Service of the cluster. It works from outside the cluster too.
func proxyPath(address string) (string, error) {
	target, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("its address: %w", err)
	}
	parts := strings.Split(target.Hostname(), ".")
	if len(parts) < 3 || parts[2] != "svc" || target.Scheme != "http" && target.Scheme != "https" {
		return "", fmt.Errorf("its address %s is not a Service in the cluster. Send to it with --url from a place that can reach it",
			target.Redacted())
	}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return fmt.Sprintf("/api/v1/namespaces/%s/services/%s:%s:%s/proxy%s", parts[1], target.Scheme, parts[0], port, target.EscapedPath()), nil
}

// send posts the event in binary mode. Anything but a 2xx answer is an error.
func (s *sink) send(ctx context.Context, e event.Event) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", s.name, err)
	}
	if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("sending event %s of type %s to %s: %w", e.ID(), e.Type(), s.name, err)
	}
	defer response.Body.Close() // read only
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("sending event %s of type %s: %s answered %s: %s", e.ID(), e.Type(), s.name, response.Status,
			text.Printable(string(body)))
	}
	return nil
}

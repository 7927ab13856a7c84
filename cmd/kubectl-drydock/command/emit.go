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
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/text"
)

// emit holds the state of kubectl drydock emit.
type emit struct {
	*tool
	sink     sinkFlags
	concerns string
	group    string
	dryRun   string
	output   string
}

func newEmit(t *tool) *cobra.Command {
	o := &emit{tool: t}
	c := &cobra.Command{
		Use:   "emit TYPE (sts/NAME | --group GROUP)",
		Short: "Send one of Drydock's events about a StatefulSet, or about a group, to the Broker",
		Long: "Send one of Drydock's events about a StatefulSet to the Broker. An event makes functions read the live objects and act.\n" +
			"Four types are orders and need a token: activity, wake, sleep and retry.\n" +
			"docs/reference/events.md explains the types.\n\nTypes:\n  " + strings.Join(typeNames(), "\n  "),
		Example: "  kubectl drydock emit resize.requested sts/web\n" +
			"  kubectl drydock emit object.changed sts/web --concerns 'backup restore'\n" +
			"  kubectl drydock emit sleep sts/web\n" +
			"  kubectl drydock emit wake --group shop\n" +
			"  kubectl drydock emit retry sts/web -o yaml",
		Args: func(c *cobra.Command, args []string) error {
			if o.group != "" {
				return cobra.ExactArgs(1)(c, args)
			}
			return cobra.ExactArgs(2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0], args[1:]) },
	}
	o.sink.add(c.Flags())
	c.Flags().StringVar(&o.concerns, "concerns", "", "for object.changed: the functions to wake, for example 'backup restore'")
	c.Flags().StringVar(&o.group, "group", "", "for activity, wake and sleep: the group, the value of the label "+
		""+api.GroupLabel+" on its StatefulSets")
	addDryRun(c, &o.dryRun, "print the event instead of sending it")
	addOutput(c.Flags(), &o.output, "json or yaml: print the event instead of sending it", "json", "yaml")
	return c
}

// addDryRun adds kubectl's flag --dry-run. Events cannot be tried on the server, so only "client" is a dry run.
func addDryRun(c *cobra.Command, value *string, usage string) {
	c.Flags().StringVar(value, "dry-run", "none", `"client": `+usage)
	c.Flags().Lookup("dry-run").NoOptDefVal = "client"
}

// isDryRun reports whether the value of --dry-run asks for a dry run.
func isDryRun(value string) (bool, error) {
	switch value {
	case "none", "client":
		return value == "client", nil
	}
	return false, fmt.Errorf("--dry-run=%s is not supported. Use --dry-run=client", value)
}

func (o *emit) run(ctx context.Context, typed string, arguments []string) error {
	eventType, err := resolveType(typed)
	if err != nil {
		return err
	}
	concerns, err := parseConcerns(eventType, o.concerns)
	if err != nil {
		return err
	}
	format, err := o.format()
	if err != nil {
		return err
	}
	s, e, err := o.event(ctx, eventType, arguments, concerns)
	if err != nil {
		return err
	}
	if format != "" {
		return o.print(e, format)
	}
	to, err := o.sink.open(ctx, s.raw)
	if err != nil {
		return err
	}
	if err := to.send(ctx, e); err != nil {
		return err
	}
	subject := "statefulset.apps/" + s.name
	if o.group != "" {
		subject = "group " + o.group
	}
	fmt.Fprintf(o.Out, "%s: event %s sent to %s (id %s)\n", subject, e.Type(), to.name, e.ID())
	to.warnOfOrderWithoutToken(o.Out, e.Type())
	return nil
}

// warnOfOrderWithoutToken says that an order without a token has no effect on most clusters.
func (s *sink) warnOfOrderWithoutToken(out io.Writer, eventType string) {
	if events.IsOrder(eventType) && s.token == "" {
		fmt.Fprintf(out, "Functions accept this order only if DRYDOCK_TRUST_BROKER is set. Otherwise set the annotation %s on the "+
			"StatefulSet, which gives the same order.\n", events.OrderAnnotation(eventType))
	}
}

// event returns the event for the group, or for the set that the argument names, and the session that reads it.
func (o *emit) event(ctx context.Context, eventType string, arguments []string, concerns []api.Function) (*session, event.Event, error) {
	argument := "group" // a valid name in place of a set's
	if o.group == "" {
		argument = arguments[0]
	}
	s, err := o.open(argument)
	if err != nil {
		return nil, event.Event{}, err
	}
	if o.group != "" {
		e, err := events.NewForGroup(eventType, s.namespace, o.group, uuid.NewString())
		return s, e, err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return nil, event.Event{}, err
	}
	e, err := s.event(ctx, eventType, set, concerns)
	return s, e, err
}

// format returns the format to print the event in, or "" to send it.
func (o *emit) format() (string, error) {
	dryRun, err := isDryRun(o.dryRun)
	if err == nil && dryRun && o.output == "" {
		return "yaml", nil
	}
	return o.output, err
}

// print prints the event in CloudEvents' structured mode.
func (o *emit) print(e event.Event, format string) error {
	if err := printAs(o.Out, e, format); err != nil {
		return fmt.Errorf("writing event %s: %w", e.ID(), err)
	}
	return nil
}

// event returns the event for the live set.
func (s *session) event(ctx context.Context, eventType string, set *appsv1.StatefulSet, concerns []api.Function) (event.Event, error) {
	if events.IsOwn(eventType) {
		return events.NewFromUser(eventType, refOf(set), uuid.NewString(), concerns...), nil
	}
	object, err := s.object(ctx, refOf(set).Object())
	if err != nil {
		return event.Event{}, err
	}
	if object == nil {
		return event.Event{}, fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
	}
	return events.NewSource(eventType, s.raw.host, uuid.NewString(), object)
}

// object reads a live object with every field. It returns nil if the object does not exist.
func (s *session) object(ctx context.Context, o events.Object) (*unstructured.Unstructured, error) {
	body, found, err := s.raw.get(ctx, o.URLPath())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.URLPath(), err)
	}
	if !found {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.URLPath(), err)
	}
	return object, nil
}

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

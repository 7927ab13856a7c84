package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
	"k8s.io/client-go/rest"

	"drydock.dev/eventsource/gateway"
	"drydock.dev/eventsource/statuspage"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/settings"
	"drydock.dev/shared/telemetry/export"
)

// options are the settings of the process: flags, with defaults from the environment, and the functions' settings.
type options struct {
	Listen         string        `envconfig:"DRYDOCK_LISTEN" flag:"listen" desc:"address for metrics, health and /debug/events (127.0.0.1:9090; in a cluster :9090)"`
	Broker         string        `envconfig:"DRYDOCK_BROKER" flag:"broker" default:"127.0.0.1:9091" desc:"address of the Broker for posted CloudEvents; none switches it off"`
	Gateway        string        `envconfig:"DRYDOCK_GATEWAY" flag:"gateway" desc:"address of the wake gateway (127.0.0.1:9092; in a cluster :9092); none switches it off"`
	StatusPage     string        `envconfig:"DRYDOCK_STATUS_PAGE" flag:"status-page" desc:"address of the status page (127.0.0.1:9093; in a cluster :9093); none switches it off"`
	Tick           time.Duration `envconfig:"DRYDOCK_TICK" flag:"tick" default:"30s" desc:"time between two sweeps; 0 for none"`
	NoSource       bool          `envconfig:"DRYDOCK_NO_SOURCE" flag:"no-source" desc:"do not watch the cluster: only ticks and posted events"`
	EventsLog      string        `envconfig:"DRYDOCK_EVENTS_LOG" flag:"events-log" desc:"file for the events that pass the Broker, a line of JSON each; - for standard output"`
	InFlight       int           `envconfig:"DRYDOCK_IN_FLIGHT" flag:"in-flight" default:"100" desc:"events in progress above which more are refused"`
	EventTimeout   time.Duration `envconfig:"DRYDOCK_EVENT_TIMEOUT" flag:"event-timeout" default:"25s" desc:"time limit of a function for one event"`
	LeaderElect    bool          `envconfig:"DRYDOCK_LEADER_ELECT" flag:"leader-elect" default:"true" desc:"work only while holding the Lease drydock-standalone"`
	Impersonate    bool          `envconfig:"DRYDOCK_IMPERSONATE" flag:"impersonate" default:"false" desc:"use the account of each function (in the namespace drydock), which config/policy limits"`
	LeaseNamespace string        `envconfig:"DRYDOCK_LEASE_NAMESPACE" flag:"lease-namespace" desc:"namespace of the Lease (the pod's own; out of a cluster: default)"`
	LogLevel       slog.Level    `envconfig:"LOG_LEVEL" flag:"log-level" default:"info" desc:"lowest level of log lines: debug, info, warn or error"`
	api.Settings
	gateway.Options
	statuspage.Access
	settings.Kubeconfig
}

// switchedOff is the address of a part that does not run.
const switchedOff = "none"

var errHelp = errors.New("help was requested")

// readOptions reads the environment, then the flags, which take precedence.
func readOptions(args []string, stdout, stderr io.Writer) (options, error) {
	var o options
	if err := envconfig.Process("", &o); err != nil {
		return o, fmt.Errorf("reading the settings: %w", err)
	}
	if o.Listen == "" {
		o.Listen = defaultAddress(9090)
	}
	if o.Gateway == "" {
		o.Gateway = defaultAddress(9092)
	}
	if o.StatusPage == "" {
		o.StatusPage = defaultAddress(9093)
	}
	if o.LeaseNamespace == "" {
		o.LeaseNamespace = ownNamespace()
	}
	flags := o.flags()
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		help(stdout)
		return o, errHelp
	case err != nil:
		return o, fmt.Errorf("%w. -h lists the flags", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q. -h lists the flags", flags.Arg(0))
	}
	if o.Broker == switchedOff {
		o.Broker = ""
	}
	return o, nil
}

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("drydock-standalone", flag.ContinueOnError)
	f.StringVar(&o.Listen, "listen", o.Listen, "")
	f.StringVar(&o.Broker, "broker", o.Broker, "")
	f.StringVar(&o.Gateway, "gateway", o.Gateway, "")
	f.StringVar(&o.StatusPage, "status-page", o.StatusPage, "")
	f.Func("namespace", "", func(text string) error {
		o.Namespaces = strings.Split(text, ",")
		return nil
	})
	f.DurationVar(&o.Tick, "tick", o.Tick, "")
	f.BoolVar(&o.NoSource, "no-source", o.NoSource, "")
	f.StringVar(&o.EventsLog, "events-log", o.EventsLog, "")
	f.IntVar(&o.InFlight, "in-flight", o.InFlight, "")
	f.DurationVar(&o.EventTimeout, "event-timeout", o.EventTimeout, "")
	f.BoolVar(&o.Impersonate, "impersonate", o.Impersonate, "")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "")
	f.StringVar(&o.LeaseNamespace, "lease-namespace", o.LeaseNamespace, "")
	f.TextVar(&o.LogLevel, "log-level", o.LogLevel, "")
	return f
}

func help(out io.Writer) {
	fmt.Fprint(out, "Usage: drydock-standalone [flags]\n\nAll of Drydock in one process. A flag overrides its variable.\n\n")
	if err := settings.PrintWithFlags(out, &options{}); err != nil {
		fmt.Fprintln(out, err)
	}
	fmt.Fprintf(out, "\n%s\n", export.Help)
}

// configFor returns the config with which a function reaches the API server.
func (o *options) configFor(config *rest.Config, name api.Function) *rest.Config {
	if o.Impersonate {
		config = kube.Impersonate(config, name)
	}
	return kube.ForFunction(config, name, o.Settings)
}

// inCluster reports whether the process runs in a pod and works on that pod's cluster.
func inCluster() bool {
	return os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("KUBECONFIG") == ""
}

// defaultAddress is open to the cluster in a pod, and local elsewhere.
func defaultAddress(port int) string {
	if inCluster() {
		return fmt.Sprintf(":%d", port)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	return "default"
}

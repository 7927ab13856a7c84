package arch

import (
	"fmt"
	"slices"
	"strings"
)

// module starts the path of every package of ours.
const module = "drydock.dev"

// law says what the packages below a path may import. Paths of our own packages are relative to the module; "" is the
// root package. A prefix stands for the package itself and everything below it.
type law struct {
	of  string
	why string
	// own are the packages of ours that may be imported; all others may not.
	own []string
	// others are the packages of others, beside the standard library, that may be imported. Nil means any.
	others []string
	// never are packages that must not be imported, whoever they are of.
	never []string
	// nowhere are packages that must not be linked either, through whatever other package.
	nowhere []string
}

const (
	clientGo   = "k8s.io/client-go"
	kubeAPI    = "k8s.io/api"
	machinery  = "k8s.io/apimachinery"
	cloudEvent = "github.com/cloudevents/sdk-go/v2/event"
	otelAPI    = "go.opentelemetry.io/otel"
)

var (
	effects = []string{"context", "net", "os", "log", "math/rand", "crypto/rand"}
	data    = []string{"shared/api", "shared/bounded", "shared/events", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/resources", "shared/owners", "shared/idle", "shared/cleanup", "shared/resize", "shared/scale", "shared/grow", "shared/moverreport"}
)

// laws are the table of packages, in order of who stands on whom. Every package of the module is under exactly one.
var laws = []law{
	{of: "shared/bounded", why: "what it reads is hostile", others: []string{machinery, "sigs.k8s.io/yaml", "go.yaml.in/yaml/v3"},
		never: effects, nowhere: []string{clientGo}},
	{of: "shared/api", why: "what clusters store must not change because something else does", own: []string{"shared/bounded"}, others: []string{kubeAPI, machinery},
		never: effects, nowhere: []string{clientGo, "github.com/cloudevents"}},
	{of: "shared/fault", why: "every layer sorts its errors by it", others: []string{machinery}},
	{of: "shared/settings", why: "it says how settings are read, and knows none", others: []string{}},
	{of: "shared/moverreport", why: "the mover and the functions agree by it, and it is linked into both", others: []string{}, never: effects},
	{of: "cmd/drydock/mover", why: "it runs beside people's data: the fewer people wrote it, the better", own: []string{"shared/moverreport"},
		others: []string{"golang.org/x/sys"}},
	{of: "cmd/drydock/membercopy", why: "it runs beside people's data, as the mover does", own: []string{"cmd/drydock/mover", "shared/moverreport"}, others: []string{}},
	{of: "shared/events", why: "the wire contract is not the wire", own: []string{"shared/api"},
		others: []string{kubeAPI, machinery, cloudEvent}, never: append([]string{"net/http"}, effects...), nowhere: []string{clientGo}},
	{of: "shared/plan", why: "a plan is data", own: []string{"shared/api"}, others: []string{kubeAPI, machinery},
		never: []string{"context", "net", "os", "math/rand"}, nowhere: []string{clientGo}},
	{of: "shared/world", why: "what one look has read is data", own: []string{"shared/api", "shared/plan", "shared/statefulset"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/statefulset", why: "what is known of StatefulSets is a function of objects", own: []string{"shared/api"}, others: []string{kubeAPI, machinery},
		never: effects, nowhere: []string{clientGo}},
	{of: "shared/operation", why: "what runs on a set, and what may follow, is a function of its records", own: []string{"shared/api", "shared/plan", "shared/statefulset", "shared/world"},
		others: []string{kubeAPI, machinery}, never: []string{"context", "net", "os", "math/rand"}, nowhere: []string{clientGo}},
	{of: "shared/idle", why: "when a set is to be awake is a function of objects and a time",
		own:    []string{"shared/api", "shared/operation", "shared/statefulset", "shared/world"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/podprobe", why: "it asks the pods that it is given, and nothing else", own: []string{"shared/idle"}, others: []string{kubeAPI}, nowhere: []string{clientGo}},
	{of: "shared/hookurl", why: "which URL a hook may call is a function of its text, before the scaling and in the pod", others: []string{},
		never: []string{"context", "net/http", "os", "log", "math/rand"}},
	{of: "shared/resources", why: "the same operation makes the same objects",
		own:    []string{"shared/api", "shared/bounded", "shared/hookurl", "shared/statefulset", "shared/world", "shared/moverreport"},
		others: []string{kubeAPI, machinery, "k8s.io/utils/ptr"}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/cleanup", why: "what a scale-down leaves behind is a function of objects",
		own:    []string{"shared/api", "shared/bounded", "shared/operation", "shared/statefulset", "shared/world"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/scale", why: "which Scaler scales a set is a function of objects", own: []string{"shared/api", "shared/operation"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/grow", why: "when a volume is nearly full is a function of figures", own: []string{"shared/api", "shared/operation", "shared/statefulset", "shared/world"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/prom", why: "it reaches the administrator's Prometheus, and asks nothing", own: []string{"shared/api", "shared/podprobe"}, others: []string{}},
	{of: "shared/owners", why: "how an operator is paused is a table", own: []string{"shared/api", "shared/bounded", "shared/plan"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/owners/rights", why: "it is made from the table, and no function carries it", own: []string{"shared/api", "shared/owners"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/resize", why: "whoever judges a resize comes to the same end",
		own:    []string{"shared/api", "shared/moverreport", "shared/operation", "shared/statefulset", "shared/world", "shared/resources", "shared/owners", "shared/idle"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "shared/telemetry", why: "what measures everything knows nothing of it, and no SDK", others: []string{cloudEvent, otelAPI + "/attribute",
		otelAPI + "/codes", otelAPI + "/metric", otelAPI + "/propagation", otelAPI + "/semconv", otelAPI + "/trace"}, nowhere: []string{clientGo, otelAPI + "/sdk"}},
	{of: "shared/telemetry/export", why: "it chooses exporters, and knows nothing of Kubernetes", own: []string{"shared/telemetry"},
		nowhere: []string{clientGo}},
	{of: "shared/kube", why: "it reads, and decides nothing", own: []string{"shared/api", "shared/events", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/fault", "shared/telemetry"}},
	{of: "shared/apply", why: "it carries out, and decides nothing", own: []string{"shared/api", "shared/events", "shared/plan", "shared/fault", "shared/telemetry"}},
	{of: "shared/serve", why: "HTTP knows nothing of Kubernetes", own: []string{"shared/api", "shared/events", "shared/fault", "shared/telemetry"},
		nowhere: []string{clientGo, otelAPI + "/sdk"}},
	{of: "functions", why: "functions talk to each other by events only", own: append([]string{"shared/kube", "shared/apply", "shared/fault", "shared/podprobe", "shared/prom"}, data...)},
	{of: "eventsource", why: "events come in without knowing who takes them", own: []string{"shared"}},
	{of: "eventsource/gateway", why: "HTTP requests become activity, as events do", own: append([]string{"shared/kube", "shared/apply", "shared/fault",
		"shared/podprobe"}, data...)},
	{of: "deploy", why: "it is files", others: []string{}},
	{of: "", why: "it puts the functions together", own: []string{"functions", "eventsource/sift", "shared"}},
	{of: "cmd", why: "it puts processes together", own: []string{"", "cmd/drydock", "functions", "eventsource", "shared", "deploy"}},
	{of: "cmd/kubectl-drydock", why: "people have it on their machines: it asks, and takes no function along",
		own: []string{"cmd/kubectl-drydock", "shared/api", "shared/events", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/resources", "shared/owners", "shared/resize",
			"shared/idle", "shared/grow", "shared/settings", "shared/kube", "shared/apply"},
		nowhere: []string{"knative.dev", module + "/functions", module + "/eventsource", module + "/shared/serve", module + "/test", otelAPI + "/sdk"}},
	{of: "cmd/kubectl-drydock/forecast", why: "what would happen is a function of what there is",
		own:    []string{"shared/api", "shared/plan", "shared/statefulset", "shared/world", "shared/resources", "shared/owners", "shared/resize"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "cmd/kubectl-drydock/fit", why: "what would fit is a function of figures", own: []string{"shared/grow", "shared/statefulset", "shared/world"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "cmd/kubectl-drydock/release", why: "what is let go of is a function of what there is",
		own:    []string{"shared/api", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/resources", "shared/owners", "shared/idle"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "cmd/kubectl-drydock/progress", why: "how far an operation is, is a function of what there is",
		own:    []string{"shared/api", "shared/statefulset", "shared/world", "shared/operation", "shared/resize"},
		others: []string{kubeAPI, machinery}, never: effects, nowhere: []string{clientGo}},
	{of: "examples", why: "people copy them, without Drydock's code", others: []string{"github.com/cloudevents/sdk-go/v2"}},
	{of: "test", why: "tests may look at everything", own: []string{"", "functions", "eventsource", "shared", "deploy", "test", "cmd"}},
}

// lawOf is the law that a package of ours is under: the one of the longest path.
func lawOf(path string) (law, bool) {
	best, found := law{}, false
	for _, l := range laws {
		if l.of == path || l.of != "" && within(path, l.of) {
			if !found || len(l.of) > len(best.of) {
				best, found = l, true
			}
		}
	}
	return best, found
}

// breaches says what a package imports or links against its law. The paths are those of go list.
func breaches(path string, imports, linked []string) []string {
	path = relative(path)
	l, found := lawOf(path)
	if !found {
		return []string{fmt.Sprintf("%s is under no law; add it to the table", path)}
	}
	var broken []string
	breach := func(verb, what string) {
		broken = append(broken, fmt.Sprintf("%s %s %s: %s", path, verb, what, l.why))
	}
	for _, imported := range imports {
		switch {
		case !allowed(l, path, imported):
			breach("may not import", imported)
		case slices.ContainsFunc(l.never, func(n string) bool { return within(imported, n) }):
			breach("must never import", imported)
		}
	}
	for _, dependency := range linked {
		if slices.ContainsFunc(l.nowhere, func(n string) bool { return within(dependency, n) }) {
			breach("must not link", dependency)
		}
	}
	return broken
}

func allowed(l law, path, imported string) bool {
	if ours(imported) {
		own := relative(imported)
		return slices.ContainsFunc(l.own, func(o string) bool { return own == o || o != "" && within(own, o) }) || sibling(path, own)
	}
	standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
	return standard || l.others == nil || slices.ContainsFunc(l.others, func(o string) bool { return within(imported, o) })
}

// sibling reports whether a package imports one below itself, as a function may its own parts.
func sibling(path, own string) bool { return path != "" && own != path && within(own, path) }

func ours(path string) bool { return within(path, module) }

func relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// within reports whether the path is the prefix or below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

package arch

import (
	"fmt"
	"slices"
	"strings"
)

// module is the path of Drydock's module. The paths of all its packages begin with it.
const module = "drydock.dev"

// law limits the imports of the packages below a path. Paths of Drydock's packages are relative to the module, and "" is the root package.
// A path in a law stands for the package and all packages below it.
type law struct {
	of  string
	why string
	// own are the packages of Drydock that may be imported. All others may not.
	own []string
	// others are the packages outside Drydock and the standard library that may be imported. Nil means any.
	others []string
	// never are packages that must not be imported, although another field allows them.
	never []string
	// nowhere are packages that must not be linked, directly or through another package.
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
	// effects are the packages that a pure function must not use.
	effects = []string{"context", "net", "os", "log", "math/rand", "crypto/rand"}
	// data are the packages without effects. A function's decision may import them.
	data = []string{"shared/text", "shared/api", "shared/bounded", "shared/events", "shared/plan", "shared/statefulset", "shared/world",
		"shared/operation", "shared/resources", "shared/owners", "shared/window", "shared/probe", "shared/idle", "shared/cleanup",
		"shared/members", "shared/resize", "shared/moving", "shared/scaling", "shared/grow", "shared/turns", "shared/podend",
		"shared/moverreport"}
)

// moverLaw is the law of a package of the mover, which may import these others of it. The mover runs on users' data, so it contains as
// little foreign code as possible.
func moverLaw(name, why string, others ...string) law {
	const mover = "cmd/drydock/mover"
	l := law{of: strings.TrimSuffix(mover+"/"+name, "/"), why: why, own: []string{"shared/moverreport"}, others: []string{"golang.org/x/sys"}}
	for _, o := range others {
		l.own = append(l.own, mover+"/"+o)
	}
	return l
}

// laws are the laws of all packages, from the lowest floor to the highest. Each package of the module is under exactly one.
var laws = []law{
	{
		of:     "shared/text",
		why:    "it prints untrusted text, so it depends on the standard library only",
		own:    []string{},
		others: []string{},
		never:  effects,
	},
	{
		of:      "shared/bounded",
		why:     "it parses untrusted input, so its dependencies are few",
		others:  []string{machinery, "sigs.k8s.io/yaml", "go.yaml.in/yaml/v3"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/api",
		why:     "it defines what clusters store, so no other package may change it",
		own:     []string{"shared/text", "shared/bounded"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo, "github.com/cloudevents"},
	},
	{
		of:     "shared/fault",
		why:    "every layer classifies its errors with it",
		others: []string{machinery},
	},
	{
		of:     "shared/settings",
		why:    "it reads any settings and knows none of them",
		others: []string{"github.com/caarlos0/env/v11", "github.com/kelseyhightower/envconfig"},
	},
	{
		of:     "shared/moverreport",
		why:    "it is the contract between the mover and the functions, and both link it",
		own:    []string{"shared/text"},
		others: []string{},
		never:  effects,
	},
	moverLaw("fault", "every step of the mover classifies its errors with it"),
	moverLaw("fsys", "it wraps system calls and knows nothing of a copy", "fault"),
	moverLaw("pool", "it runs any tasks"),
	moverLaw("progress", "it counts and limits any work", "fsys"),
	moverLaw("units", "it compares any two files", "fault", "fsys", "progress"),
	moverLaw("tree", "it describes the source, whatever is done with it", "fault", "fsys", "pool", "progress", "units"),
	moverLaw("record", "it decides what is trusted, so nothing that writes may change it", "fault", "fsys", "units", "tree"),
	moverLaw("target", "it guards the target, so every writer is above it", "fault", "fsys", "tree"),
	moverLaw("forecast", "it predicts, so it touches no volume", "fsys", "progress", "units", "tree", "record"),
	moverLaw("write", "the verification must not depend on what it verifies, and the other way round",
		"fault", "fsys", "pool", "units", "tree", "record", "target", "forecast"),
	moverLaw("verify", "the verification must not depend on what it verifies",
		"fault", "fsys", "pool", "units", "tree", "record", "target", "forecast"),
	moverLaw("device", "a device has no tree", "fault", "fsys", "pool", "progress", "units", "forecast"),
	moverLaw("", "it only puts the packages below it in order"),
	{
		of:     "cmd/drydock/membercopy",
		why:    "it runs on users' data, as the mover does",
		own:    []string{"cmd/drydock/mover", "shared/moverreport"},
		others: []string{},
	},
	{
		of:      "shared/events",
		why:     "it defines the events and does not transport them",
		own:     []string{"shared/api"},
		others:  []string{kubeAPI, machinery, cloudEvent},
		never:   append([]string{"net/http"}, effects...),
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/plan",
		why:     "a plan is data",
		own:     []string{"shared/api", "shared/fault"},
		others:  []string{kubeAPI, machinery},
		never:   []string{"context", "net", "os", "math/rand"},
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/world",
		why:     "observed objects are data",
		own:     []string{"shared/api", "shared/plan", "shared/statefulset"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/statefulset",
		why:     "facts about StatefulSets are computed from objects only",
		own:     []string{"shared/api"},
		others:  []string{kubeAPI, machinery, "k8s.io/component-helpers/resource"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/operation",
		why:     "the operations on a set are computed from its records only",
		own:     []string{"shared/api", "shared/plan", "shared/statefulset", "shared/text", "shared/world"},
		others:  []string{kubeAPI, machinery},
		never:   []string{"context", "net", "os", "math/rand"},
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/window",
		why:     "whether a window is open follows from a text and a time only",
		own:     []string{},
		others:  []string{},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/probe",
		why:     "it reads what users write, and sends nothing",
		own:     []string{"shared/api"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "shared/idle",
		why: "whether a set must be awake is computed from objects and a time only",
		own: []string{"shared/window", "shared/probe", "shared/text", "shared/api", "shared/operation", "shared/members", "shared/statefulset",
			"shared/world"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/podprobe",
		why:     "it probes the given pods and nothing else",
		own:     []string{"shared/probe"},
		others:  []string{kubeAPI},
		nowhere: []string{clientGo},
	},
	{
		of:     "shared/hookurl",
		why:    "the check of a hook's URL must give the same result before the scaling and in the pod",
		others: []string{},
		never:  []string{"context", "net/http", "os", "log", "math/rand"},
	},
	{
		of:      "shared/podend",
		why:     "how a pod ended is judged from objects only",
		own:     []string{"shared/api", "shared/text"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "shared/resources",
		why: "the same operation always creates the same objects",
		own: []string{"shared/api", "shared/bounded", "shared/hookurl", "shared/podend", "shared/statefulset", "shared/world",
			"shared/moverreport"},
		others:  []string{kubeAPI, machinery, "k8s.io/utils/ptr"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/members",
		why:     "the pods of a set are counted, stopped and started by what is on the set only",
		own:     []string{"shared/text", "shared/api", "shared/operation", "shared/statefulset"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "shared/cleanup",
		why: "the leftovers of a scale-down are computed from objects only",
		own: []string{"shared/text", "shared/api", "shared/bounded", "shared/members", "shared/operation", "shared/podend",
			"shared/statefulset", "shared/world"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/scaling",
		why:     "the Scaler of a set is computed from objects only",
		own:     []string{"shared/statefulset", "shared/api", "shared/members", "shared/operation"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/turns",
		why:     "whose turn it is follows from the list only",
		own:     []string{"shared/api", "shared/plan"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/grow",
		why:     "whether a volume is nearly full is computed from figures only",
		own:     []string{"shared/api", "shared/operation", "shared/statefulset", "shared/world"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:     "shared/prom",
		why:    "it connects to the administrator's Prometheus and makes no queries",
		own:    []string{"shared/api", "shared/podprobe"},
		others: []string{},
	},
	{
		of:      "shared/owners",
		why:     "the ways to pause an operator are a table",
		own:     []string{"shared/api", "shared/bounded", "shared/plan"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/owners/rights",
		why:     "it renders roles from the table, and no function needs it",
		own:     []string{"shared/api", "shared/owners"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "shared/resize",
		why: "detect-resize and kubectl drydock must judge a resize alike",
		own: []string{"shared/window", "shared/probe", "shared/api", "shared/bounded", "shared/moverreport", "shared/operation",
			"shared/statefulset", "shared/world", "shared/resources", "shared/owners", "shared/idle", "shared/text"},
		others:  []string{kubeAPI, machinery, "k8s.io/utils/ptr"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/moving",
		why:     "backup and restore must trust the same records and write them in the same way",
		own:     []string{"shared/api", "shared/operation", "shared/plan", "shared/statefulset", "shared/world", "shared/resize"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/progress",
		why:     "progress is computed from objects only",
		own:     []string{"shared/api", "shared/statefulset", "shared/world", "shared/operation", "shared/resize", "shared/text"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "shared/overview",
		why:     "the list is computed from objects only",
		own:     []string{"shared/api", "shared/statefulset", "shared/operation", "shared/text", "shared/idle"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:     "shared/token",
		why:    "it compares secrets, so its code is small and has no dependencies",
		own:    []string{},
		others: []string{},
	},
	{
		of:  "shared/telemetry",
		why: "it measures all packages, so it depends on none of them and on no SDK",
		others: []string{cloudEvent, otelAPI + "/attribute", otelAPI + "/codes", otelAPI + "/metric", otelAPI + "/propagation", otelAPI +
			"/semconv", otelAPI + "/trace"},
		nowhere: []string{clientGo, otelAPI + "/sdk"},
	},
	{
		of:      "shared/telemetry/export",
		why:     "it chooses exporters and knows nothing of Kubernetes",
		own:     []string{"shared/telemetry", "shared/text"},
		nowhere: []string{clientGo},
	},
	{
		of:  "shared/kube",
		why: "it reads the cluster and decides nothing",
		own: []string{"shared/api", "shared/events", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/fault",
			"shared/podend", "shared/telemetry"},
	},
	{
		of:  "shared/apply",
		why: "it executes plans and decides nothing",
		own: []string{"shared/text", "shared/api", "shared/events", "shared/plan", "shared/fault", "shared/telemetry"},
	},
	{
		of:      "shared/serve",
		why:     "the HTTP server needs no Kubernetes client",
		own:     []string{"shared/api", "shared/events", "shared/fault", "shared/telemetry", "shared/text"},
		nowhere: []string{clientGo, otelAPI + "/sdk"},
	},
	{
		of:  "functions",
		why: "functions communicate only through events",
		own: append([]string{"shared/kube", "shared/apply", "shared/fault", "shared/podprobe", "shared/prom"}, data...),
	},
	{
		of:  "eventsource",
		why: "it delivers events without knowledge of the functions",
		own: []string{"shared"},
	},
	{
		of:  "eventsource/gateway",
		why: "it turns HTTP requests into activity, as events do",
		own: append([]string{"shared/kube", "shared/apply", "shared/fault", "shared/podprobe", "shared/token"}, data...),
	},
	{
		of:  "eventsource/statuspage",
		why: "it shows what the cluster stores and writes nothing",
		own: append([]string{"shared/kube", "shared/token", "shared/overview", "shared/progress"}, data...),
	},
	{
		of:     "deploy",
		why:    "it only embeds files",
		others: []string{},
	},
	{
		of:  "",
		why: "it is the list of all functions",
		own: []string{"functions", "eventsource/sift", "shared"},
	},
	{
		of:  "cmd",
		why: "it assembles the processes",
		own: []string{"", "cmd/drydock", "functions", "eventsource", "shared", "deploy"},
	},
	{
		of:  "cmd/kubectl-drydock",
		why: "it runs on users' machines, so it contains no function and no server",
		own: []string{"cmd/kubectl-drydock", "docs", "config", "deploy",
			"shared/api", "shared/events", "shared/plan", "shared/statefulset", "shared/world",
			"shared/operation", "shared/resources", "shared/owners", "shared/resize", "shared/idle", "shared/grow", "shared/members",
			"shared/scaling", "shared/settings", "shared/kube", "shared/apply", "shared/bounded", "shared/text", "shared/overview",
			"shared/progress"},
		nowhere: []string{"knative.dev", module + "/functions", module + "/eventsource", module + "/shared/serve", module + "/test",
			otelAPI + "/sdk"},
	},
	{
		of:  "cmd/kubectl-drydock/forecast",
		why: "a forecast is computed from objects only",
		own: []string{"shared/api", "shared/plan", "shared/statefulset", "shared/world", "shared/operation", "shared/resources", "shared/owners",
			"shared/resize", "shared/text"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "cmd/kubectl-drydock/fit",
		why:     "a fitting size is computed from figures only",
		own:     []string{"shared/grow", "shared/statefulset", "shared/world"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "cmd/kubectl-drydock/release",
		why: "the writes of a release are computed from objects only",
		own: []string{"shared/api", "shared/plan", "shared/statefulset", "shared/operation", "shared/members", "shared/resources",
			"shared/owners"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "cmd/kubectl-drydock/doctor",
		why:     "a diagnosis is computed from facts only",
		own:     []string{"shared/api", "shared/events", "shared/owners", "shared/text", "cmd/kubectl-drydock/install"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:     "cmd/kubectl-drydock/explain",
		why:    "an explanation comes from the documentation only",
		own:    []string{"docs"},
		others: []string{},
		never:  effects,
	},
	{
		of:     "cmd/kubectl-drydock/terminal",
		why:    "it knows nothing of Drydock",
		others: []string{"github.com/charmbracelet/x/ansi", "golang.org/x/term"},
	},
	{
		of:      "cmd/kubectl-drydock/install",
		why:     "the manifests are rendered from embedded files only",
		own:     []string{"config", "deploy", "shared/api"},
		others:  []string{machinery, "sigs.k8s.io/kustomize", "sigs.k8s.io/yaml"},
		never:   effects,
		nowhere: []string{},
	},
	{
		of:     "config",
		why:    "it only embeds files",
		others: []string{},
	},
	{
		of:     "docs",
		why:    "it only embeds pages",
		others: []string{},
	},
	{
		of:      "cmd/kubectl-drydock/redact",
		why:     "it decides what leaves the user's machine, so it depends on data only",
		own:     []string{"shared/api", "shared/bounded", "shared/moverreport"},
		others:  []string{kubeAPI, machinery, "sigs.k8s.io/yaml"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:  "cmd/kubectl-drydock/logs",
		why: "which lines belong to an operation follows from the lines only",
		own: []string{"cmd/kubectl-drydock/redact", "shared/text", "shared/api", "shared/events", "shared/statefulset", "shared/operation",
			"shared/moverreport"},
		others:  []string{kubeAPI, machinery},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:      "cmd/kubectl-drydock/report",
		why:     "a report is computed from what was read only",
		own:     []string{"cmd/kubectl-drydock/redact", "cmd/kubectl-drydock/logs", "shared/text"},
		others:  []string{kubeAPI, machinery, "sigs.k8s.io/yaml"},
		never:   effects,
		nowhere: []string{clientGo},
	},
	{
		of:     "examples",
		why:    "users copy them without the code of Drydock",
		others: []string{"github.com/cloudevents/sdk-go/v2"},
	},
	{
		of:  "test",
		why: "tests may use every package",
		own: []string{"", "functions", "eventsource", "shared", "deploy", "test", "cmd"},
	},
}

// lawOf returns the law of a package: the law with the longest matching path.
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

// breaches returns the imports and links of a package that break its law. The paths are those of go list.
func breaches(path string, imports, linked []string) []string {
	path = relative(path)
	l, found := lawOf(path)
	if !found {
		return []string{fmt.Sprintf("package %s has no law. Add it to the table", path)}
	}
	var broken []string
	report := func(verb, other string) {
		broken = append(broken, fmt.Sprintf("%s %s %s: %s", path, verb, other, l.why))
	}
	for _, imported := range imports {
		switch {
		case !allowed(l, path, imported):
			report("may not import", imported)
		case slices.ContainsFunc(l.never, func(n string) bool { return within(imported, n) }):
			report("must never import", imported)
		}
	}
	for _, dependency := range linked {
		if slices.ContainsFunc(l.nowhere, func(n string) bool { return within(dependency, n) }) {
			report("must not link", dependency)
		}
	}
	return broken
}

// allowed reports whether the law allows the package to import the other one.
func allowed(l law, path, imported string) bool {
	if isOwn(imported) {
		own := relative(imported)
		return slices.ContainsFunc(l.own, func(o string) bool { return own == o || o != "" && within(own, o) }) || isBelow(path, own)
	}
	standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
	return standard || l.others == nil || slices.ContainsFunc(l.others, func(o string) bool { return within(imported, o) })
}

// isBelow reports whether own is a package below the importing package, which may always import it.
func isBelow(path, own string) bool { return path != "" && own != path && within(own, path) }

// isOwn reports whether the package is one of Drydock.
func isOwn(path string) bool { return within(path, module) }

// relative returns the path of a package relative to the module.
func relative(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// within reports whether the path is the prefix or below it.
func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

const (
	// leaseLimit is how long ago a working process may have renewed its Lease. It renews it every two seconds.
	leaseLimit = time.Minute
	// reinstall applies all manifests again. The released command knows its images.
	reinstall = "kubectl drydock install. On Knative, add --mode knative. If Helm or Git installs Drydock, use them instead"
)

// isStandalone and Facts.isKnative report whether parts of the installation exist in namespace drydock.
func (i Installed) isStandalone() bool { return i.Deployment.Value != nil }

func (f Facts) isKnative() bool {
	i, expected := f.Installed, f.Expected
	return len(missing(expected.Functions, names(i.Services.Value))) < len(expected.Functions) ||
		len(missing(expected.Triggers, names(i.Triggers.Value))) < len(expected.Triggers) || find(i.APISources.Value, "drydock") != nil
}

// working returns the Leases that a process has renewed lately, first that of namespace drydock.
func (i Installed) working(now time.Time) []Lease {
	var all []Lease
	for _, l := range i.Leases.Value {
		switch {
		case l.Holder == "" || now.Sub(l.Renewed) > leaseLimit:
		case l.Namespace == api.HomeNamespace:
			all = append([]Lease{l}, all...)
		default:
			all = append(all, l)
		}
	}
	return all
}

func names(parts []Part) []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.Name)
	}
	return all
}

func find(parts []Part, name string) *Part {
	for i := range parts {
		if parts[i].Name == name {
			return &parts[i]
		}
	}
	return nil
}

func installation(f Facts) []Finding {
	const subject = "installation"
	i := f.Installed
	switch working := i.working(f.Now); {
	case i.isStandalone() && f.isKnative():
		return append([]Finding{{subject, Problem, "Drydock is installed twice, standalone and on Knative, and both work on the same sets",
			"remove one of them. Standalone: kubectl -n drydock delete deployment drydock-standalone. Knative: " +
				"kubectl -n drydock delete ksvc,triggers --all"},
			standalone(f)}, knative(f)...)
	case f.isKnative() && len(working) > 0:
		return append([]Finding{{subject, Note, "on Knative. drydock-standalone also works, and holds the Lease in namespace " + places(working),
			"two installations must not work on the same namespaces. Stop one of them"}}, knative(f)...)
	case f.isKnative():
		return append([]Finding{{subject, OK, "on Knative", ""}}, knative(f)...)
	case i.isStandalone():
		return []Finding{{subject, OK, "standalone", ""}, standalone(f)}
	case len(working) > 0:
		return []Finding{outside(working)}
	}
	return []Finding{absent(subject, i)}
}

// absent returns the finding if no part of Drydock was found. The parts that were not read may exist.
func absent(subject string, i Installed) Finding {
	for _, a := range []Answer[[]Part]{i.Services, i.Triggers, i.APISources} {
		if !a.Known() {
			return a.unknown(subject)
		}
	}
	switch {
	case !i.Deployment.Known():
		return i.Deployment.unknown(subject)
	case !i.Leases.Known():
		return i.Leases.unknown(subject)
	}
	return Finding{subject, Problem, "namespace drydock has no Drydock, and no process outside it holds a Lease", reinstall}
}

// outside describes processes without the Deployment, which usually run outside the cluster.
func outside(working []Lease) Finding {
	f := Finding{"installation", OK, "drydock-standalone holds the Lease in namespace " + places(working), ""}
	if len(working) > 1 {
		f.Level, f.Remedy = Note, "give each process other namespaces, with --namespace"
	}
	return f
}

// places returns the namespaces of the Leases.
func places(working []Lease) string {
	var namespaces []string
	for _, l := range working {
		namespaces = append(namespaces, l.Namespace)
	}
	return list(namespaces)
}

func standalone(f Facts) Finding {
	const subject = "standalone"
	d, leases := f.Installed.Deployment.Value, f.Installed.Leases
	ready := fmt.Sprintf("%d of %s ready", d.Ready, count(int(d.Replicas), "replica"))
	switch {
	case d.Ready == 0:
		return Finding{subject, Problem, ready, "kubectl -n drydock describe pods -l app.kubernetes.io/component=standalone"}
	case !leases.Known():
		return leases.unknown(subject)
	}
	working := f.Installed.working(f.Now)
	if len(working) == 0 || working[0].Namespace != api.HomeNamespace {
		return Finding{subject, Problem,
			ready + ", but none has renewed the Lease in the last minute by the clock of this machine, so none works",
			"kubectl -n drydock logs deployment/drydock-standalone"}
	}
	pod, _, _ := strings.Cut(working[0].Holder, "_")
	state := fmt.Sprintf("%s; %s works and renewed the Lease %s ago", ready, pod, age(f.Now, working[0].Renewed))
	if d.Ready < d.Replicas {
		return Finding{subject, Note, state, "kubectl -n drydock describe pods -l app.kubernetes.io/component=standalone"}
	}
	return Finding{subject, OK, state, ""}
}

// age returns the time since then, for example 2m. The clock of the cluster may be ahead of that of this machine.
func age(now, then time.Time) string { return duration.HumanDuration(max(0, now.Sub(then))) }

// knative returns a finding for each kind of Knative object.
func knative(f Facts) []Finding {
	i := f.Installed
	return []Finding{
		parts("functions", i.Services, f.Expected.Functions, "services.serving.knative.dev", reinstall),
		parts("triggers", i.Triggers, f.Expected.Triggers, "triggers.eventing.knative.dev", reinstall),
		parts("broker", i.Brokers, []string{"default"}, "brokers.eventing.knative.dev", reinstall),
		parts("source", i.APISources, []string{"drydock"}, "apiserversources.sources.knative.dev", reinstall),
		parts("tick source", i.PingSources, []string{"tick"}, "pingsources.sources.knative.dev", reinstall),
	}
}

// parts checks that the expected objects exist and are ready.
func parts(subject string, found Answer[[]Part], expected []string, kind, create string) Finding {
	if !found.Known() {
		return found.unknown(subject)
	}
	if absent := missing(expected, names(found.Value)); len(absent) > 0 {
		return Finding{subject, Problem, "not installed: " + list(absent), create}
	}
	var unready []string
	for _, name := range expected {
		if p := find(found.Value, name); !p.Ready {
			unready = append(unready, strings.TrimSuffix(name+": "+p.Message, ": "))
		}
	}
	if len(unready) > 0 {
		return Finding{subject, Problem, "not ready: " + list(unready), "kubectl -n drydock describe " + kind}
	}
	return Finding{subject, OK, list(expected) + areReady(len(expected)), ""}
}

func areReady(n int) string {
	if n == 1 {
		return " is ready"
	}
	return " are ready"
}

// TickWindow is how long a working installation waits for a tick at most.
const TickWindow = 2 * time.Minute

// LogOf returns the ticks in the lines of a log. The functions write a line of JSON for each event that they have handled.
func LogOf(pod string, since time.Time, lines string) Log {
	log := Log{Pod: pod, Since: since}
	for line := range strings.Lines(lines) {
		var entry struct{ Msg, Function, Type, Error string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "event" && entry.Function == string(api.Sift) &&
			entry.Type == events.Tick {
			log.Heard, log.Error = true, entry.Error
		}
	}
	return log
}

func tick(f Facts) []Finding {
	i := f.Installed
	switch {
	case f.isKnative() || i.isStandalone():
		return []Finding{heard(f)}
	case !i.Deployment.Known():
		return []Finding{i.Deployment.unknown("tick")}
	case len(i.working(f.Now)) > 0:
		return []Finding{{"tick", Unknown, "the process does not run in namespace drydock, so its log is not visible here",
			"look for type " + events.Tick + " in its log"}}
	}
	return nil // the finding of the installation says enough
}

// heard says whether sift has heard a tick. Only its log shows that: it names each event that sift has handled.
func heard(f Facts) Finding {
	const subject = "tick"
	logs := f.Tick.Logs
	if !logs.Known() {
		return logs.unknown(subject)
	}
	ok := slices.IndexFunc(logs.Value, func(l Log) bool { return l.Heard && l.Error == "" })
	failed := slices.IndexFunc(logs.Value, func(l Log) bool { return l.Heard && l.Error != "" })
	switch {
	case ok >= 0:
		return Finding{subject, OK, "heard in the last two minutes, says the log of pod " + logs.Value[ok].Pod, ""}
	case failed >= 0:
		return Finding{subject, Problem, "sift heard the latest tick and failed: " + logs.Value[failed].Error,
			"kubectl -n drydock logs " + logs.Value[failed].Pod}
	case hidesEvents(f.Settings):
		return Finding{subject, Unknown, "the log shows no events, because LOG_LEVEL is " + f.Settings.Value["LOG_LEVEL"],
			"set LOG_LEVEL to info in ConfigMap drydock-settings, to see the ticks in the log"}
	case len(logs.Value) > 0:
		return unheard(f)
	case f.isKnative():
		return asleep(f)
	}
	return Finding{subject, Problem, "no replica works, so none hears a tick", "kubectl -n drydock logs deployment/drydock-standalone"}
}

// hidesEvents reports whether the functions leave events out of their logs.
func hidesEvents(settings Answer[map[string]string]) bool {
	level := strings.ToLower(settings.Value["LOG_LEVEL"])
	return strings.HasPrefix(level, "warn") || strings.HasPrefix(level, "error")
}

// unheard returns the finding for pods whose logs have no tick. A young pod may still hear its first one.
func unheard(f Facts) Finding {
	oldest := slices.MinFunc(f.Tick.Logs.Value, func(a, b Log) int { return a.Since.Compare(b.Since) })
	if f.Now.Sub(oldest.Since) <= TickWindow {
		return Finding{"tick", Unknown, fmt.Sprintf("pod %s has worked for %s, and has not heard one yet", oldest.Pod, age(f.Now, oldest.Since)),
			"run the command again in two minutes"}
	}
	return Finding{"tick", Problem, "none in the last two minutes, says the log of pod " + oldest.Pod, f.tickRemedy()}
}

// asleep returns the finding for Knative without a pod of sift, whose log would show the tick.
func asleep(f Facts) Finding {
	changed := f.Tick.SiftChanged
	switch {
	case !changed.Known():
		return changed.unknown("tick")
	case changed.Value.IsZero():
		return Finding{"tick", Problem, "sift has no pod, and Knative has never started one", f.tickRemedy()}
	case f.Now.Sub(changed.Value) > TickWindow:
		return Finding{"tick", Problem, "sift has had no pod for " + age(f.Now, changed.Value) + ", but each tick starts one", f.tickRemedy()}
	}
	return Finding{"tick", Unknown, "the last pod of sift ended " + age(f.Now, changed.Value) + " ago, and its log with it",
		"run the command again in a minute"}
}

func (f Facts) tickRemedy() string {
	if f.isKnative() {
		return "kubectl -n drydock describe pingsource tick; kubectl -n knative-eventing logs deployment/pingsource-mt-adapter"
	}
	return "check DRYDOCK_TICK in ConfigMap drydock-settings, then run kubectl -n drydock rollout restart deployment/drydock-standalone"
}

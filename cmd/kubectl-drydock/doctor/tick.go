package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

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
	case i.isKnative() || i.isStandalone():
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
	case f.Installed.isKnative():
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
	if f.Installed.isKnative() {
		return "kubectl -n drydock describe pingsource tick; kubectl -n knative-eventing logs deployment/pingsource-mt-adapter"
	}
	return "check DRYDOCK_TICK in ConfigMap drydock-settings, then run kubectl -n drydock rollout restart deployment/drydock-standalone"
}

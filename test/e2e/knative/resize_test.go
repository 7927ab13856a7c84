//go:build cluster

package knative

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/stage"
)

// set is the end of the subject of the workload's events.
const set = workloads + "/statefulsets/web"

// begin creates the workload and requests larger volumes.
func (k *knative) begin(t *testing.T) stage.Data {
	t.Helper()
	k.CreateSet(stage.Workload("64Mi"))
	before := k.Data(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	return before
}

// TestResizeFromZeroToZero: no function runs before or afterwards. Each function with work runs in between, and all of
// it is one trace.
func TestResizeFromZeroToZero(t *testing.T) {
	k := setUp(t)
	k.set(t, "OTEL_TRACES_EXPORTER", `"console"`)
	t.Cleanup(func() { k.set(t, "OTEL_TRACES_EXPORTER", "null") })
	k.CreateSet(stage.Workload("64Mi"))
	before := k.Data(t)
	k.awaitRest(t)
	start := time.Now()
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := k.ExpectResized(t, before)
	t.Logf("asked, and done after %s", time.Since(start).Round(100*time.Millisecond))
	k.awaitRest(t)
	t.Logf("every function at zero again after %s", time.Since(start).Round(time.Second))
	for _, name := range []string{"sift", "detect-resize", "pause-owner", "backup", "restore"} {
		if !slices.Contains(k.functions.appeared(start), name) {
			t.Errorf("no pod of %s was seen", name)
		}
	}
	if slices.Contains(k.functions.appeared(start), "dead-letter") {
		t.Error("an event was given up")
	}
	k.expectOneTrace(t, status)
}

// set changes a setting for the functions that start from now on.
func (k *knative) set(t *testing.T, name, value string) {
	t.Helper()
	k.Kubectl(t, "", "-n", drydock, "patch", "configmap", "drydock-settings", "--type=merge", "-p",
		fmt.Sprintf(`{"data":{%q:%s}}`, name, value))
}

// expectOneTrace checks that the operation's trace has all work on the set, whatever woke a function.
func (k *knative) expectOneTrace(t *testing.T, status *api.Resize) {
	t.Helper()
	did := map[string]int{}
	for _, p := range k.functions.sorted() {
		for _, l := range p.lines {
			if l.Message != "done" {
				continue
			}
			did[p.function]++
			if l.TraceID == "" || !strings.Contains(status.Trace, "-"+l.TraceID+"-") {
				t.Errorf("%s is not in the operation's trace %s: %s", p.function, status.Trace, l.raw)
			}
		}
	}
	t.Logf("writes in trace %s, by function: %v", status.Trace, did)
	if len(did) != 4 {
		t.Errorf("%v wrote, want detect-resize, pause-owner, backup, restore", did)
	}
}

// TestRepeatedAndReorderedEvents posts every event between functions again and again during an operation.
// Invariants: I6.
func TestRepeatedAndReorderedEvents(t *testing.T) {
	k := setUp(t)
	before := k.begin(t)
	ref := func() events.Ref { return k.ref() }
	stop, posted := make(chan struct{}), make(chan int)
	go func() { posted <- k.storm(t, ref, stop) }()
	k.AwaitEnd(t)
	close(stop)
	t.Logf("%d events posted on the way", <-posted)
	k.ExpectResized(t, before)
}

// ref returns a reference to the workload and its operation, if there is one.
func (k *knative) ref() events.Ref {
	ref := events.Ref{Namespace: k.Namespace, Name: "web"}
	if set := k.Set("web"); set != nil {
		ref.UID, ref.ResourceVersion = set.UID, set.ResourceVersion
		if status, err := api.LoadResize(set); err == nil && status != nil {
			ref.Operation = status.Operation
		}
	}
	return ref
}

// TestForgedEventsChangeNothing: they claim everything that an event can claim, for a set without a request.
// Invariants: I6.
func TestForgedEventsChangeNothing(t *testing.T) {
	k := setUp(t)
	k.CreateSet(stage.Workload("64Mi"))
	before := k.versions(t)
	ref := k.ref()
	ref.Operation = "made-up"
	list := append(everyEvent(ref), events.NewStep("stranger", events.Retry, ref))
	for _, e := range list {
		if err := k.post(e); err != nil {
			t.Error(err)
		}
	}
	k.Eventually("the functions have handled them", func() string {
		for _, e := range list {
			if !k.functions.handled(e.ID()) {
				return e.Type() + " is missing"
			}
		}
		return ""
	})
	k.awaitRest(t)
	if after := k.versions(t); after != before {
		t.Errorf("something was written: %s, before %s", after, before)
	}
}

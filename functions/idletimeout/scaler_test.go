package idletimeout

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// scaledByPilot stores a record on the set: its Scaler, pilot, scaled it from 3 to its present count.
func scaledByPilot(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindScale, Phase: api.Succeeded,
		Attempt: 1,
		Set:     api.SetRef{Name: set.Name, UID: set.UID}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"},
		Previous: 3, Target: *set.Spec.Replicas, Paused: *set.Spec.Replicas == 0}
	build.Annotation(api.ScaleAnnotation, record.Encode())(set)
	return set
}

// withScaler returns the input with a Scaler of the first set.
func (in Input) withScaler(paused bool) Input {
	count := int32(3)
	in.Scalers = map[string]*v1alpha1.Scaler{in.Name: {ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot",
		UID: "uid-pilot", ResourceVersion: "5"},
		Spec: v1alpha1.ScalerSpec{Target: in.Name, Replicas: &count, Paused: paused}}}
	return in
}

// TestWakeUpUnpausesScalerFirst: after a conflict or a crash between the writes, a wake-up with a paused Scaler would look like
// a pause by the user. The sleep would end at zero, and no activity would wake the set.
func TestWakeUpUnpausesScalerFirst(t *testing.T) {
	for name, in := range map[string]Input{
		"asleep": on(scaledByPilot(web(zero, build.LastActivity(0), sleep(api.Asleep, build.ScaledDown(time.Minute))))).withScaler(true),
		"waiting for a dependency": on(
			scaledByPilot(web(zero, sleep(api.Waking, due, build.ScaledDown(time.Minute), build.SleepReason(api.DependencyFirst, "")),
				build.LastActivity(0)))).withScaler(true),
		"stopping": on(scaledByPilot(web(build.LastActivity(0), sleep(api.Stopping, due, build.ScaledDown(time.Minute))))).withScaler(true),
	} {
		p := Decide(in)
		scaler := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Scalers })
		set := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.StatefulSets })
		if scaler < 0 || set < 0 || scaler > set {
			t.Errorf("%s: %s, want the Scaler before the set", name, p)
		}
	}
}

// TestSetWithPausedScalerIsNotPutToSleep: the pause is the user's, and the wake-up would end it.
func TestSetWithPausedScalerIsNotPutToSleep(t *testing.T) {
	if p := Decide(on(scaledByPilot(web())).withScaler(true)); p.Kind == plan.KindDo {
		t.Errorf("%s, want no action", p)
	}
	if p := Decide(on(scaledByPilot(web())).withScaler(false)); p.Reason != api.SleepDecided {
		t.Errorf("without a pause: %s, want a sleep", p)
	}
}

// TestLostSleepEndsPauseOfScaler: the pre hook runs, and an applied manifest removes the set's annotations. The record is the only trace of
// the sleep and of its pause.
func TestLostSleepEndsPauseOfScaler(t *testing.T) {
	asleep := build.Sleep(api.Stopping, build.ScaledDown(time.Minute))
	runs, stopped := scaledByPilot(web()), scaledByPilot(web(zero))
	in := on(runs).withScaler(true)
	in.Records["web"] = []Record{recordOf(runs, asleep)}
	if p := Decide(in); p.Reason != api.WakingUp {
		t.Errorf("running: %s, want a wake-up", p)
	}
	in = on(stopped).withScaler(true)
	in.Records["web"] = []Record{recordOf(stopped, asleep)}
	if p := Decide(in); p.Reason != api.WakingUp {
		t.Errorf("at zero: %s, want a wake-up", p)
	}
}

// TestPauseEndsAlthoughManifestRemovedAllAnnotations: without the set's records, idle-timeout finds the Scaler that it has paused by the
// Scaler's target. The pause ends, and a set at zero gets its replicas.
func TestPauseEndsAlthoughManifestRemovedAllAnnotations(t *testing.T) {
	pilot := func() *v1alpha1.Scaler {
		return build.With(&v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot",
			ResourceVersion: "5"}, Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3)}}, build.PausedByDrydock())
	}
	slept := build.Sleep(api.Stopping, build.ScaledDown(time.Minute))
	waiting := build.Sleep(api.Waking, build.ScaledDown(time.Minute), build.SleepReason(api.DependencyFirst, ""))
	for name, row := range map[string]struct {
		options []build.Option
		record  *api.Sleep
		writes  string
	}{
		"the pre hook runs":  {nil, slept, "PATCH pilot, PATCH web"},
		"the set is at zero": {[]build.Option{zero}, slept, "PATCH pilot, PATCH web"},
		"only the record of the Scaler is lost while the pre hook runs": {[]build.Option{build.WithSleep(slept)}, slept,
			"PATCH pilot, PATCH web"},
		"the set has waited for a dependency": {[]build.Option{zero, build.WithSleep(waiting)}, waiting, "PATCH pilot, PATCH web"},
		"no sleep: the pause is the user's":   {[]build.Option{zero}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := staleWeb(append([]build.Option{build.Annotation(api.LastActivityAnnotation, timestampAgo(time.Minute))}, row.options...)...)
			objects := []metav1.Object{set, pilot()}
			if row.record != nil {
				objects = append(objects, recordOf(set, row.record).Revision)
			}
			c := newCluster(t, objects...)
			handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
			if got := strings.Join(c.writes, ", "); got != row.writes {
				t.Errorf("writes %q, want %q", got, row.writes)
			}
			ended := row.writes != ""
			if paused := c.objects["scalers"][0].(*v1alpha1.Scaler).Spec.Paused; paused == ended || ended && *c.set("web").Spec.Replicas != 3 {
				t.Errorf("paused %t, %d replicas", paused, *c.set("web").Spec.Replicas)
			}
		})
	}
}

// TestScalersAreListedOnlyForALostRecord: no other set needs the list, and it is no error if the custom resource is not installed.
func TestScalersAreListedOnlyForALostRecord(t *testing.T) {
	running := newCluster(t, staleWeb())
	running.down = "scalers"
	if answer := handle(t, running.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(),
		aboutWeb)); answer != "web sleep.decided" {
		t.Errorf("a set without a sleep: %q", answer)
	}
	lost := newCluster(t, staleWeb(zero), recordOf(web(), build.Sleep(api.Stopping, build.ScaledDown(time.Minute))).Revision)
	lost.notInstalled = "scalers"
	if answer := handle(t, lost.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(),
		aboutWeb)); answer != "web wake.decided" {
		t.Errorf("a set with a lost sleep, and no kind Scaler: %q", answer)
	}
}

// TestUsersPauseOfNewScalerStays: a user creates a paused Scaler while the set, which had none, sleeps.
func TestUsersPauseOfNewScalerStays(t *testing.T) {
	set, record := asleepAndNeeded()
	pilot := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot", ResourceVersion: "5",
		CreationTimestamp: metav1.Now()}, Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](3), Paused: true}}
	c := newCluster(t, set, record, pilot)
	handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if !c.objects["scalers"][0].(*v1alpha1.Scaler).Spec.Paused {
		t.Errorf("the pause was ended: %v", c.writes)
	}
}

// asleepAndNeeded returns a sleeping set that must wake now, and the record of its sleep.
func asleepAndNeeded() (*appsv1.StatefulSet, *appsv1.ControllerRevision) {
	asleep := build.Sleep(api.Asleep, build.ScaledDown(time.Hour))
	set := web(zero, build.WithSleep(asleep), build.Annotation(api.AwakeUntilAnnotation, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	return set, recordOf(set, asleep).Revision
}

// TestSetWakesWithoutRightToListScalers: the Roles may be older than this Drydock.
func TestSetWakesWithoutRightToListScalers(t *testing.T) {
	set, record := asleepAndNeeded()
	c := newCluster(t, set, record)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/scalers") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		}
		c.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), slog.New(slog.DiscardHandler))
	_, err := f.Handle(t.Context(), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if statefulset.Replicas(c.set("web")) == 0 {
		t.Errorf("the set stays at zero: %v", err)
	}
}

package idle

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestNewSleep checks that a stored sleep is read again for the same set.
func TestNewSleep(t *testing.T) {
	set := build.Set("web", build.Replicas(3))
	now := build.Now.Add(700 * time.Millisecond).In(time.FixedZone("", 3600))
	sleep := NewSleep(set, api.Planned, RequestAsked, 4, now, "00-trace")
	want := &api.Sleep{
		Header: api.Header{Version: api.RecordVersion, Operation: sleep.Operation, Kind: api.KindSleep, Phase: api.Planned, Request: "asked",
			Attempt: 4, Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now), Trace: "00-trace"},
		Replicas: 3,
	}
	if diff := cmp.Diff(want, sleep); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	read, err := api.LoadSleep(build.With(set, build.Annotation(api.SleepAnnotation, sleep.Encode())))
	if err != nil || !cmp.Equal(read, sleep) {
		t.Errorf("%+v, %v", read, err)
	}
	ids := map[string]bool{}
	for _, other := range []*api.Sleep{sleep, NewSleep(set, api.Planned, RequestAsked, 5, now, ""),
		NewSleep(build.Set("api"), api.Planned, RequestAsked, 4, now, ""),
		NewSleep(set, api.Planned, RequestAsked, 4, now.Add(time.Hour), "")} {
		ids[other.Operation] = true
	}
	if len(ids) != 4 {
		t.Errorf("sleeps share an id: %v", ids)
	}
	if again := NewSleep(set, api.Waking, RequestIdle, 4, now, ""); again.Operation != sleep.Operation {
		t.Error("the same attempt has two ids")
	}
}

func TestMessageIsReportedOnce(t *testing.T) {
	wrong := build.IdleTimeout("soon")
	said := MemberOf(build.Set("web", wrong)).InvalidMessage()
	if !strings.Contains(said, "stays awake until that is corrected") {
		t.Error(said)
	}
	refused := func(message string) build.Option {
		return build.WithSleep(build.Sleep(api.Refused, build.SleepReason(api.RequestInvalid, message)))
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"no record":                      {[]build.Option{wrong}, false},
		"the record has the message":     {[]build.Option{wrong, refused(said)}, true},
		"the record has another message": {[]build.Option{wrong, refused("the owner refuses")}, false},
		"a second annotation is invalid": {[]build.Option{wrong, build.Annotation(api.KeepWarmAnnotation, "x"), refused(said)}, false},
		"the set is asleep":              {[]build.Option{wrong, build.WithSleep(build.Sleep(api.Asleep, build.SleepReason("", said)))}, false},
	} {
		if got := MemberOf(build.Set("web", row.options...)).InvalidReported(); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestBackOff(t *testing.T) {
	const retry = 13 * time.Minute
	within, over := 13*time.Minute-time.Second, 13*time.Minute
	started := func(n int, ago time.Duration) *api.Sleep {
		return build.Sleep(api.Succeeded, build.SleepEnded(api.StartedByOthers, ago), build.Starts(n))
	}
	for name, row := range map[string]struct {
		sleep   *api.Sleep
		request string
		want    bool
	}{
		"it never slept":                      {nil, RequestIdle, false},
		"it sleeps":                           {build.Sleep(api.Asleep), RequestIdle, false},
		"it failed":                           {build.Sleep(api.Failed, build.SleepEnded(api.Aborted, within)), RequestIdle, true},
		"it failed long ago":                  {build.Sleep(api.Failed, build.SleepEnded(api.Aborted, over)), RequestIdle, false},
		"its probe failed recently":           {build.Sleep(api.Refused, build.SleepEnded(api.ProbeFailed, within)), RequestIdle, true},
		"its probe failed long ago":           {build.Sleep(api.Refused, build.SleepEnded(api.ProbeFailed, over)), RequestIdle, false},
		"its owner refused a sleep long ago":  {build.Sleep(api.Refused, build.SleepEnded(api.OwnerNotPausable, over)), RequestIdle, true},
		"its owner refused a sleep recently":  {build.Sleep(api.Refused, build.SleepEnded(api.OwnerNotPausable, within)), RequestIdle, true},
		"an invalid annotation was corrected": {build.Sleep(api.Refused, build.SleepEnded(api.RequestInvalid, 0)), RequestIdle, false},
		"it woke because it was needed":       {build.Sleep(api.Succeeded, build.SleepEnded(api.Awake, 0)), RequestIdle, false},
		"another client started it":           {started(1, within), RequestIdle, true},
		"another client started it long ago":  {started(1, over), RequestIdle, false},
		"another client started it twice":     {started(2, over), RequestIdle, true},
		"a paused set was started":            {started(1, within), RequestPaused, true},
		"a paused set was started long ago":   {started(1, over), RequestPaused, false},
		"it was corrected after a start by another client": {build.Sleep(api.Refused, build.SleepEnded(api.CauseGone, 0),
			build.Starts(3)), RequestIdle, false},
		"its probe failed after such a start": {build.Sleep(api.Refused, build.SleepEnded(api.ProbeFailed, over),
			build.Starts(3)), RequestIdle, false},
		"the record has no end time": {build.Sleep(api.Failed), RequestIdle, false},
	} {
		m := Member{Set: build.Set("web"), Sleep: row.sleep}
		if got := m.IsBackingOff(Verdict{Request: row.request}, build.Now, retry); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestStartsByOtherClients: each short sleep that another client ends by scaling the set up doubles the wait before the next one, up to a
// day. A sleep that lasted begins a new count.
func TestStartsByOtherClients(t *testing.T) {
	const retry = 13 * time.Minute
	for name, row := range map[string]struct {
		before int
		sleep  func(*api.Sleep)
		starts int
		wait   time.Duration
	}{
		"the first time":                   {0, build.AsleepFor(time.Minute), 1, retry},
		"again":                            {1, build.AsleepFor(time.Minute), 2, 2 * retry},
		"a third time":                     {2, build.AsleepFor(time.Minute), 3, 4 * retry},
		"many times":                       {1000, build.AsleepFor(time.Minute), 1001, 24 * time.Hour},
		"while its pods were ending":       {1, build.SleepStarted(3 * time.Hour), 2, 2 * retry},
		"just before the sleep has lasted": {4, build.AsleepFor(2*time.Hour - time.Second), 5, 16 * retry},
		"after a sleep that lasted, for instance the next morning": {4, build.AsleepFor(2 * time.Hour), 1, retry},
	} {
		sleep := build.Sleep(api.Asleep, row.sleep, build.Starts(row.before))
		next := sleep.Clone()
		if next.Starts = StartsWith(sleep, build.Now); next.Starts != row.starts {
			t.Errorf("%s: %d starts, not %d", name, next.Starts, row.starts)
		}
		if wait := Backoff(next, retry); wait != row.wait {
			t.Errorf("%s: it waits for %s, not %s", name, wait, row.wait)
		}
	}
}

// TestReplicasAtWake: a set at zero without an active sleep starts with the count that its user has set for that case.
func TestReplicasAtWake(t *testing.T) {
	zero, two := build.Replicas(0), build.Annotation(api.WakeReplicasAnnotation, "2")
	stopped, slept := build.WithStop(build.Stop(build.StoppedByScaler(build.ID))), build.WithStop(build.Stop())
	scaled := func(s *appsv1.StatefulSet) {
		record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
			Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}}
		build.Annotation(api.ScaleAnnotation, record.Encode())(s)
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    int32
	}{
		"no count is known":                                       {nil, 0},
		"its user has set a count":                                {[]build.Option{two}, 2},
		"an operator controls it":                                 {[]build.Option{two, build.ControlledBy("Database", "main")}, 0},
		"it is paused":                                            {[]build.Option{two, build.Paused()}, 0},
		"an annotation is invalid":                                {[]build.Option{two, build.IdleTimeout("soon")}, 0},
		"the record of its sleep is unreadable":                   {[]build.Option{two, build.Annotation(api.SleepAnnotation, "{")}, 0},
		"a Scaler scales it":                                      {[]build.Option{two, build.Edit(scaled)}, 0},
		"its paused Scaler is gone":                               {[]build.Option{stopped}, 0},
		"its paused Scaler is gone, and it has a count":           {[]build.Option{stopped, two}, 2},
		"the pods of its failed wake-up have not been asked back": {[]build.Option{slept, two}, 3},
		"they have not been asked back, and it is paused":         {[]build.Option{slept, build.Paused()}, 0},
		"a Scaler keeps it stopped":                               {[]build.Option{stopped, two, build.Edit(scaled)}, 0},
		"its pods were asked back, and another client scaled it to zero": {[]build.Option{two,
			build.WithStop(build.Stop(build.StoppedByScaler(build.ID), build.StartedFor(time.Second)))}, 2},
	} {
		m := MemberOf(build.Set("web", append([]build.Option{zero}, row.options...)...))
		if got := m.ReplicasAtWake(); got != row.want || m.CanWake() != (row.want > 0) {
			t.Errorf("%s: %d replicas, want %d; it can wake: %t", name, got, row.want, m.CanWake())
		}
	}
}

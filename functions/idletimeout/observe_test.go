package idletimeout

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/test/kit/build"
)

func TestReadErrorIsRetried(t *testing.T) {
	aboutGroup := map[string]string{"group": "shop"}
	for name, row := range map[string]struct {
		down       string
		extensions map[string]string
	}{
		"the set":    {"statefulsets", aboutWeb},
		"the group":  {"statefulsets", aboutGroup},
		"its Scaler": {"scalers", aboutWeb},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, scaledByPilot(staleWeb(sleep(api.Asleep))))
			c.down = row.down
			if answer, err := c.function(build.SleepSettings()).Handle(t.Context(),
				newEvent(events.Wake, "1", time.Now(), row.extensions)); answer != nil || err == nil || fault.IsPermanent(err) {
				t.Errorf("%v, %v", answer, err)
			}
		})
	}
	if _, err := newCluster(t).function(build.SleepSettings()).Handle(context.Background(),
		newEvent(events.Wake, "1", time.Now(), map[string]string{"kind": "Pod", "name": "web-0"})); !fault.IsPermanent(err) {
		t.Errorf("an event about a Pod: %v", err)
	}
}

// TestScalerOfRecordIsRead: only the Scaler that scales the set counts. A set whose Scaler is gone is scaled like a set without one.
func TestScalerOfRecordIsRead(t *testing.T) {
	pilot := func(changes ...func(*v1alpha1.Scaler)) []metav1.Object {
		scaler := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", UID: "uid-pilot"},
			Spec: v1alpha1.ScalerSpec{Target: "web"}}
		for _, change := range changes {
			change(scaler)
		}
		return []metav1.Object{scaler}
	}
	another := func(s *v1alpha1.Scaler) { s.UID = "uid-2" }
	deleting := func(s *v1alpha1.Scaler) { s.DeletionTimestamp = &metav1.Time{Time: build.Now} }
	ofAnother := func(s *v1alpha1.Scaler) { s.Spec.Target = "db" }
	for name, row := range map[string]struct {
		set     *appsv1.StatefulSet
		scalers []metav1.Object
		want    bool
	}{
		"its Scaler":                    {scaledByPilot(web()), pilot(), true},
		"its Scaler is gone":            {scaledByPilot(web()), nil, false},
		"its Scaler was created again":  {scaledByPilot(web()), pilot(another), false},
		"its Scaler is being deleted":   {scaledByPilot(web()), pilot(deleting), false},
		"its Scaler scales another set": {scaledByPilot(web()), pilot(ofAnother), false},
		"scale has not recorded it":     {web(), pilot(), false},
	} {
		in, err := newCluster(t, append(row.scalers, row.set)...).function(build.SleepSettings()).observe(t.Context(),
			events.Ref{Namespace: build.Namespace, Name: "web"}, Signal{}, map[string]ProbeResult{})
		if got := in.Scalers["web"] != nil; err != nil || got != row.want {
			t.Errorf("%s: it counts: %t, %v", name, got, err)
		}
	}
}

// TestGroupEventGoesToMemberThatIsNotPaused: the activity of a paused set keeps no member awake.
func TestGroupEventGoesToMemberThatIsNotPaused(t *testing.T) {
	for want, objects := range map[string][]metav1.Object{
		"":    nil,
		"web": {member("db", shop, build.Paused()), web(shop)},
		"db":  {member("db", shop, build.Paused()), web(shop, build.Paused())},
		"api": {member("db", shop, build.DependsOn("web")), web(shop, build.DependsOn("db")), member("api", shop)}, // no valid order
	} {
		got, err := newCluster(t, objects...).function(build.SleepSettings()).representativeOf(t.Context(), build.Namespace, "shop")
		if err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// TestGroupWakeReachesSleepingMember: the first member of the group is at zero by another client. A wake order for the group must
// still wake the members that sleep.
func TestGroupWakeReachesSleepingMember(t *testing.T) {
	e, err := events.NewForGroup(events.Wake, build.Namespace, "shop", "1")
	if err != nil {
		t.Fatal(err)
	}
	e.SetTime(time.Now())
	cluster := newCluster(t,
		member("db", shop, build.Replicas(0)), // scaled to zero by its user
		web(shop, zero, stopped(), sleep(api.Asleep, justNow)))
	handle(t, cluster.function(build.SleepSettings()), e)
	if got := strings.Join(cluster.writes, ", "); !strings.Contains(got, "web") {
		t.Errorf("the wake order for the group wrote only %q: web stays asleep", got)
	}
}

// TestGroupActivityKeepsRunningMemberAwake: the same group. An activity of the group must keep the running member awake.
func TestGroupActivityKeepsRunningMemberAwake(t *testing.T) {
	e, err := events.NewForGroup(events.Activity, build.Namespace, "shop", "1")
	if err != nil {
		t.Fatal(err)
	}
	e.SetTime(time.Now())
	cluster := newCluster(t, member("db", shop, build.Replicas(0)), staleWeb(shop))
	answer := handle(t, cluster.function(build.SleepSettings()), e)
	handle(t, cluster.function(build.SleepSettings()), newEvent(events.ObjectChanged, "2", time.Now(), aboutWeb)) // the tick
	if record, err := api.LoadSleep(cluster.set("web")); err != nil || record.Active() {
		t.Errorf("the group is in use, and web begins to sleep: answer %q, writes %v, %v", answer, cluster.writes, err)
	}
}

// TestLateEventBlamesNoProbe: an event has waited behind another one of its set, and has less time left than is reserved for writes. No
// probe is sent, so the set must not get the Warning that its probe failed, and no pause of DRYDOCK_SLEEP_RETRY. It is delivered
// again and has more time then: the probe is sent, and the set sleeps.
func TestLateEventBlamesNoProbe(t *testing.T) {
	asked := 0
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`))
	}))
	t.Cleanup(prometheus.Close)
	settings := build.SleepSettings()
	settings.Prometheus, settings.PromNamespaces = prometheus.URL, []string{build.Namespace}
	c := newCluster(t, staleWeb(build.Annotation(api.ActivityProbeAnnotation, "prometheus:x")))
	handleWithin := func(id string, left time.Duration) (*api.Sleep, error) {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		_, err := c.function(settings).Handle(ctx, newEvent(events.ObjectChanged, id, time.Now(), aboutWeb))
		record, unreadable := api.LoadSleep(c.set("web"))
		if unreadable != nil {
			t.Fatal(unreadable)
		}
		return record, err
	}
	record, err := handleWithin("1", reservedForWrites-time.Second)
	if err == nil || !strings.Contains(err.Error(), "waited too long") || asked != 0 || record != nil {
		t.Fatalf("%d probes were sent, and the set says: %s (%v)", asked, build.Words(record), err)
	}
	record, err = handleWithin("2", reservedForWrites+time.Minute)
	if err != nil || asked != 1 || record == nil || record.Phase != api.Planned {
		t.Errorf("%d probes were sent, and the set says: %s (%v)", asked, build.Words(record), err)
	}
}

// TestUnansweredProbesLeaveTimeForMessages: six sets are asked concurrently, and each reports its failed probe within the same event.
func TestUnansweredProbesLeaveTimeForMessages(t *testing.T) {
	port, asked := probeServer(t, silent)
	var objects []metav1.Object
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		objects = append(objects, podOf(name, 0), member(name, shop, build.Replicas(1),
			build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour)), build.Annotation(api.ActivityProbeAnnotation, "http:"+port)))
	}
	c, settings := newCluster(t, objects...), build.SleepSettings()
	settings.ProbeTimeout = 300 * time.Millisecond
	begin := time.Now()
	_, err := c.function(settings).Handle(t.Context(), newEvent(events.ObjectChanged, "1", begin,
		map[string]string{"kind": "StatefulSet", "name": "s0"}))
	if took := time.Since(begin); err != nil || took > 5*settings.ProbeTimeout {
		t.Errorf("it took %s, %v", took, err)
	}
	for i := range 6 {
		if sleep, err := api.LoadSleep(c.set(fmt.Sprintf("s%d", i))); err != nil || sleep == nil || sleep.Reason != api.ProbeFailed {
			t.Errorf("s%d: %+v, %v", i, sleep, err)
		}
	}
	if asked.Load() != 6 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestBackingOffMemberPreventsProbesOfGroup: the group stays awake whatever the probes of other members answer.
func TestBackingOffMemberPreventsProbesOfGroup(t *testing.T) {
	port, asked := probeServer(t, silent)
	probed := build.Annotation(api.ActivityProbeAnnotation, "http:"+port)
	rests := sleep(
		api.Refused,
		build.SleepReason(api.ProbeFailed, "no answer"),
		func(s *api.Sleep) { s.Finished = &metav1.Time{Time: time.Now()} },
	)
	c := newCluster(t, staleWeb(shop, probed, build.Replicas(1)), podOf("web", 0),
		build.With(member("db", shop, probed, rests), build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour))))
	handle(t, c.function(build.SleepSettings()), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if asked.Load() > 0 {
		t.Errorf("asked %d times", asked.Load())
	}
}

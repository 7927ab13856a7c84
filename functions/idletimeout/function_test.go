package idletimeout

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/apiserver"
	"drydock.dev/test/kit/build"
)

// cluster is an API server without controllers. The package test/api tests the same requests on a real API server.
type cluster struct {
	*apiserver.Front
	writes []string
	// refuse rejects a write that contains this text with 422, like an admission webhook. If refuseOf is not empty, it rejects only
	// writes of these objects.
	refuse   string
	refuseOf []string
	// down answers requests for this plural name with 500.
	down string
	// printed is the output of a command by pod. The command fails in any other pod.
	printed map[string]string
	url     string
}

func newCluster(t *testing.T, objects ...metav1.Object) *cluster {
	t.Helper()
	c := &cluster{Front: apiserver.NewFront(objects...)}
	c.Before = func(_ *apiserver.Server, r *apiserver.Request) error {
		if r.Writes() {
			c.writes = append(c.writes, r.Method+" "+r.Name)
		}
		switch {
		case r.Resource == c.down:
			return apierrors.NewInternalError(errNoAnswer{})
		case r.Writes() && c.refuse != "" && strings.Contains(string(r.Content()), c.refuse) &&
			(len(c.refuseOf) == 0 || slices.Contains(c.refuseOf, r.Name)):
			return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, r.Method, schema.GroupResource{}, r.Name,
				"admission webhook says no", 0, false)
		}
		return nil
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *cluster) client() *kube.Client { return kube.NewClient(&rest.Config{Host: c.url}) }

func (c *cluster) function(settings api.Settings) *Function {
	return New(c.client(), settings, slog.New(slog.DiscardHandler))
}

func (c *cluster) set(name string) (set *appsv1.StatefulSet) {
	c.Use(func(s *apiserver.Server) {
		set = apiserver.Decode[appsv1.StatefulSet](s.Get(apiserver.Key{Resource: "statefulsets", Namespace: build.Namespace, Name: name}))
	})
	return set
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path.Base(r.URL.Path) == "exec" {
		c.exec(w, r)
		return
	}
	c.Front.ServeHTTP(w, r)
}

// exec writes the output to channel 1 and the exit status to channel 3, like the kubelet.
func (c *cluster) exec(w http.ResponseWriter, r *http.Request) {
	pod := path.Base(path.Dir(r.URL.Path))
	text, ok := c.printed[pod]
	channels := []wsstream.ChannelType{wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel,
		wsstream.IgnoreChannel}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: channels}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	status := metav1.Status{Status: metav1.StatusSuccess}
	if !ok {
		status = metav1.Status{Status: metav1.StatusFailure, Message: "command terminated", Reason: metav1.StatusReasonInternalError}
	}
	_, _ = streams[1].Write([]byte(text))
	encoded, _ := json.Marshal(status)
	_, _ = streams[3].Write(encoded)
}

// justNow moves a sleep to the real clock, which Handle reads.
func justNow(s *api.Sleep) {
	s.Started, s.Deadline = metav1.NewTime(time.Now().Add(-time.Minute)), operation.Moment(time.Now().Add(time.Hour))
}

// staleWeb returns web with a last activity two hours ago on the real clock.
func staleWeb(options ...build.Option) *appsv1.StatefulSet {
	return web(append([]build.Option{build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour))}, options...)...)
}

func timestampAgo(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

func newEvent(eventType, id string, sent time.Time, extensions map[string]string) event.Event {
	e := event.New()
	e.SetType(eventType)
	e.SetSource("test")
	e.SetID(id)
	if !sent.IsZero() {
		e.SetTime(sent)
	}
	e.SetExtension("namespace", build.Namespace)
	for key, value := range extensions {
		e.SetExtension(key, value)
	}
	return e
}

var aboutWeb = map[string]string{"kind": "StatefulSet", "name": "web"}

func handle(t *testing.T, f *Function, e event.Event) string {
	t.Helper()
	answer, err := f.Handle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if answer == nil {
		return ""
	}
	ref, err := events.SetOf(*answer)
	if err != nil {
		t.Fatal(err)
	}
	return ref.Name + " " + strings.TrimPrefix(answer.Type(), "dev.drydock.")
}

func TestHandle(t *testing.T) {
	later := map[string]string{"namespace": build.Namespace, "group": "shop"}
	group := func() []metav1.Object {
		return []metav1.Object{staleWeb(shop, build.DependsOn("db")),
			build.With(member("db", shop), build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour))),
			build.Set("other", shop, optOut), build.Set("alone")}
	}
	for name, row := range map[string]struct {
		objects []metav1.Object
		event   event.Event
		want    string
		writes  string
	}{
		"there is no set": {nil, newEvent(events.ObjectChanged, "1", time.Time{}, aboutWeb), "", ""},
		"nothing was active": {[]metav1.Object{staleWeb()}, newEvent(events.ObjectChanged, "1", time.Time{}, aboutWeb),
			"web sleep.decided", "PATCH web"},
		"the set is used":         {[]metav1.Object{staleWeb()}, newEvent(events.Activity, "1", time.Now(), aboutWeb), "", "PATCH web"},
		"an event without a time": {[]metav1.Object{staleWeb()}, newEvent(events.Activity, "1", time.Time{}, aboutWeb), "", "PATCH web"},
		"an old activity event": {[]metav1.Object{staleWeb()}, newEvent(events.Activity, "1", time.Now().Add(-3*time.Hour), aboutWeb),
			"web sleep.decided", "PATCH web"},
		"a sleep is requested": {[]metav1.Object{staleWeb(build.Annotation(api.LastActivityAnnotation, timestampAgo(time.Minute)))},
			newEvent(events.Sleep, "1", time.Now(), aboutWeb), "web sleep.decided", "PATCH web"},
		"scale has yet to stop the set": {[]metav1.Object{staleWeb(sleep(api.Stopping, justNow))},
			newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb), "", ""},
		"scale has stopped the set": {[]metav1.Object{staleWeb(zero, sleep(api.Stopping, justNow), stopped())},
			newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb), "web scaled", "PATCH web"},
		"an activity event for a group": {group(), newEvent(events.Activity, "1", time.Now(), later), "", "PATCH db"},
		"a group without members":       {nil, newEvent(events.Activity, "1", time.Now(), later), "", ""},
		"a sleep request for a group":   {group(), newEvent(events.Sleep, "1", time.Now(), later), "", "PATCH web"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, row.objects...)
			if got := handle(t, c.function(build.SleepSettings()), row.event); got != row.want {
				t.Errorf("answers %q, want %q", got, row.want)
			}
			if got := strings.Join(c.writes, ", "); got != row.writes {
				t.Errorf("writes %q, want %q", got, row.writes)
			}
		})
	}
}

func TestHandleProbes(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"`+r.FormValue("query")+`"]}}`)
	}))
	t.Cleanup(prometheus.Close)
	settings := build.SleepSettings()
	settings.Prometheus, settings.PromNamespaces = prometheus.URL, []string{build.Namespace}
	for query, want := range map[string]struct{ answer, reason string }{"0": {"web sleep.decided", "SleepDecided"}, "7": {"", ""},
		"x": {"web operation.failed", "ProbeFailed"}} {
		c := newCluster(t, staleWeb(build.Annotation(api.ActivityProbeAnnotation, "prometheus:"+query)))
		answer := handle(t, c.function(settings), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
		sleep, err := api.LoadSleep(c.set("web"))
		if reason := ""; err != nil || answer != want.answer || sleep != nil && string(sleep.Reason) != want.reason || sleep == nil &&
			reason != want.reason {
			t.Errorf("%s: answers %q, %+v, %v", query, answer, sleep, err)
		}
		if active := c.set("web").Annotations[api.LastActivityAnnotation] > timestampAgo(time.Minute); active != (query == "7") {
			t.Errorf("%s: active %t", query, active)
		}
	}
}

// TestRejectedWriteIsReported: no record can be written, so the event becomes a dead letter.
// Invariants: I8.
func TestRejectedWriteIsReported(t *testing.T) {
	c := newCluster(t, staleWeb(zero, stopped(), sleep(api.Stopping, justNow)))
	handleNow := func() (*event.Event, error) {
		return c.function(build.SleepSettings()).Handle(t.Context(), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	}
	c.refuse = api.SleepAnnotation[len(api.Prefix):]
	if answer, err := handleNow(); answer != nil || !fault.IsPermanent(err) {
		t.Errorf("%v, %v: want a dead letter", answer, err)
	}
	c.refuse = ""
	if answer, err := handleNow(); answer == nil || err != nil {
		t.Errorf("without a rejection: %v, %v", answer, err)
	}
}

// TestMembersWakeAlthoughWritesToOthersAreRejected: each event wakes all members of the group that can wake. The others report the
// rejection at their own event.
func TestMembersWakeAlthoughWritesToOthersAreRejected(t *testing.T) {
	needed := func(name string) *appsv1.StatefulSet {
		return member(name, shop, zero, stopped(), sleep(api.Asleep, build.AsleepFor(time.Hour)),
			build.Annotation(api.AwakeUntilAnnotation, timestampAgo(-time.Hour)))
	}
	for _, rejected := range [][]string{{"cache"}, {"cache", "db"}} {
		for name, order := range map[string][]string{"only web has an event": {"web"}, "all have": {"cache", "db", "web"},
			"only a rejected member has": {"cache"}} {
			c := newCluster(t, needed("cache"), needed("db"), needed("web"))
			c.refuse, c.refuseOf = api.SleepAnnotation[len(api.Prefix):], rejected
			for _, about := range order {
				_, err := c.function(build.SleepSettings()).Handle(t.Context(), newEvent(events.ObjectChanged, "1", time.Now(),
					map[string]string{"kind": "StatefulSet", "name": about}))
				if fault.IsPermanent(err) != slices.Contains(rejected, about) {
					t.Errorf("%v rejected, %s: the event of %s ends with %v", rejected, name, about, err)
				}
			}
			for _, m := range []string{"cache", "db", "web"} {
				if s, err := api.LoadSleep(c.set(m)); err != nil || (s.Phase == api.Waking) == slices.Contains(rejected, m) {
					t.Errorf("%v rejected, %s: %s is %s, %v", rejected, name, m, s.Phase, err)
				}
			}
		}
	}
}

// TestRejectedAnswerOfProbeKeepsGroupAwake: the API server rejects the write that stores what a probe said.
func TestRejectedAnswerOfProbeKeepsGroupAwake(t *testing.T) {
	for name, status := range map[string]int{"in use": http.StatusOK, "the probe fails": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			port, _ := probeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			old := build.Annotation(api.LastActivityAnnotation, timestampAgo(2*time.Hour))
			probed := build.Annotation(api.ActivityProbeAnnotation, "http:"+port)
			c := newCluster(t, podOf("db", 0), member("db", shop, old, build.Replicas(1), probed), member("web", shop, old))
			c.refuse, c.refuseOf = "drydock.dev", []string{"db"}
			_, _ = c.function(build.SleepSettings()).Handle(t.Context(), newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
			if sleep, err := api.LoadSleep(c.set("web")); sleep != nil || err != nil {
				t.Errorf("web has %v, %v; writes %v", sleep, err, c.writes)
			}
		})
	}
}

func TestSignalOf(t *testing.T) {
	now := build.Now
	for name, row := range map[string]struct {
		eventType string
		sent      time.Time
		want      Signal
	}{
		"the event is a second old": {events.Activity, now.Add(-time.Second), Signal{events.Activity, now}},
		"the event is a minute old": {events.Wake, now.Add(-time.Minute), Signal{events.Wake, now}},
		"the event is older than a minute and keeps its own time": {events.Wake, now.Add(-time.Minute - time.Second),
			Signal{events.Wake, now.Add(-time.Minute - time.Second)}},
		"the event is from the future": {events.Activity, now.Add(time.Hour), Signal{events.Activity, now}},
		"the event has no time":        {events.Sleep, time.Time{}, Signal{events.Sleep, now}},
		"a retry event":                {events.Retry, now, Signal{events.Retry, now}},
		"an event of another type":     {events.ObjectChanged, now, Signal{}},
	} {
		if got := signalOf(newEvent(row.eventType, "1", row.sent, nil), now); got != row.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if (Signal{Type: events.Activity, At: now}).sleepRequestedAt() != (time.Time{}) ||
		(Signal{Type: events.Sleep, At: now}).sleepRequestedAt() != now {
		t.Error("sleepRequestedAt is wrong")
	}
}

// TestMemberWhoseWebhookDoesNotAnswerKeepsNoOtherAsleep: apply ends the event when the same write fails again, so that web never wakes.
func TestMemberWhoseWebhookDoesNotAnswerKeepsNoOtherAsleep(t *testing.T) {
	old := build.LastActivity(0)
	asleep := func(name string, options ...build.Option) build.Option {
		return func(o metav1.Object) {
			for _, option := range append(options, build.Replicas(0), build.InGroup("shop"), sleep(api.Asleep)) {
				option(o)
			}
		}
	}
	in := on(member("web", asleep("web", old)), member("db", asleep("db", old)))
	first := Decide(in)
	if len(first.Actions) == 0 || first.Actions[0].Name != "db" {
		t.Fatalf("the test is wrong: %s", first)
	}
	in.Failures = plan.Failures{{Action: first.Actions[0], Plan: first.Reason, Err: apierrors.NewInternalError(errNoAnswer{})}}
	if p := Decide(in); len(p.Actions) == 0 || p.Actions[0].Name != "web" {
		t.Errorf("%s", p)
	}
}

type errNoAnswer struct{}

func (errNoAnswer) Error() string { return "failed calling webhook" }

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

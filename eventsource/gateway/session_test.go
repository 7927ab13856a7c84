package gateway

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/seed"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// set returns a set of two replicas with an idle timeout of half an hour, after the changes.
func set(name string, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	two := int32(2)
	s := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
			Labels: map[string]string{api.ManagedLabel: "true"}, Annotations: map[string]string{api.IdleTimeoutAnnotation: "30m"}},
		Spec:   appsv1.StatefulSetSpec{Replicas: &two},
		Status: appsv1.StatefulSetStatus{Replicas: two, ReadyReplicas: two},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func with(key, value string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		if value == "" {
			delete(s.Annotations, key)
			return
		}
		s.Annotations[key] = value
	}
}

func labelled(key, value string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Labels[key] = value }
}

func replicas(want, ready int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		s.Spec.Replicas = &want
		s.Status.Replicas, s.Status.ReadyReplicas = want, ready
	}
}

// sleep stores the record of a sleep in the format of idle-timeout.
func sleep(phase api.Phase, message string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		doc := &api.Sleep{
			Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindSleep, Phase: phase, Request: idle.RequestIdle,
				Set: api.SetRef{Name: s.Name, UID: s.UID}, Started: metav1.NewTime(noon.Add(-time.Hour)), Message: message},
			Replicas: 2,
		}
		if phase == api.Failed {
			finished := metav1.NewTime(noon)
			doc.FailedAt, doc.StartsLate, doc.Finished = api.Waking, true, &finished
		}
		s.Annotations[api.SleepAnnotation] = doc.Encode()
	}
}

// failedAt stores the record of a sleep that failed in the phase.
func failedAt(phase api.Phase) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		sleep(api.Failed, "no consent")(s)
		doc, _ := api.LoadSleep(s)
		doc.FailedAt, doc.StartsLate = phase, phase == api.Waking
		s.Annotations[api.SleepAnnotation] = doc.Encode()
	}
}

// stopped is for a set at zero whose pods scale has not asked back yet.
func stopped(s *appsv1.StatefulSet) {
	replicas(0, 0)(s)
	stop := &api.Stop{Set: api.SetRef{Name: s.Name, UID: s.UID}, Operation: "0123456789ab", Kind: api.KindSleep, Replicas: 2,
		StoppedAt: &metav1.Time{Time: noon}}
	s.Annotations[api.StopAnnotation] = stop.Encode()
}

func owned(s *appsv1.StatefulSet) {
	yes := true
	s.OwnerReferences = []metav1.OwnerReference{{Kind: "Redis", Name: s.Name, Controller: &yes}}
}

func resizing(s *appsv1.StatefulSet) {
	doc := &api.Sleep{Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindResize, Phase: api.Moving,
		Set: api.SetRef{Name: s.Name, UID: s.UID}}}
	s.Annotations[api.StatusAnnotation] = doc.Encode()
}

func asleep() func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { sleep(api.Asleep, "")(s); stopped(s) }
}

func until(d time.Duration) func(*appsv1.StatefulSet) {
	return with(api.AwakeUntilAnnotation, idle.FormatTime(noon.Add(d)))
}

var pausedSet = with(api.PausedAnnotation, "true")

// unit returns a unit of the sets. The named ones, separated by commas, are the requested members.
func unit(named string, sets ...*appsv1.StatefulSet) Unit {
	u := Unit{}
	if named != "" {
		u.Named = strings.Split(named, ",")
	}
	for _, s := range sets {
		u.Members = append(u.Members, memberOf(s))
	}
	return u
}

// optional returns a unit with an optional member.
func optional(named string, sets ...*appsv1.StatefulSet) Unit {
	u := unit("", sets...)
	u.Optional = []string{named}
	return u
}

// renderSession renders the session of the units and the writes for it.
func renderSession(in Input) string {
	s := SessionOf(in.Units)
	var b strings.Builder
	for _, set := range s.Sets {
		fmt.Fprintf(&b, "%s %s", set.Name, set.describe())
		if !set.Needed {
			b.WriteString(" (not needed)")
		}
		b.WriteString("; ")
	}
	fmt.Fprintf(&b, "session ready=%t refused=%t", s.Ready(), s.refused() != nil)
	for _, a := range Decide(in).Actions {
		fmt.Fprintf(&b, "; %s %s", a, strings.TrimPrefix(fmt.Sprint(a.Ops[len(a.Ops)-1].Value), "2026-03-01T"))
	}
	return b.String()
}

func TestSessions(t *testing.T) {
	const minutes = time.Minute
	situations := map[string]struct {
		units   []Unit
		session time.Duration
	}{
		"awake: the session is written":                         {[]Unit{unit("web", set("web"))}, 10 * minutes},
		"without a duration: the idle timeout counts":           {[]Unit{unit("web", set("web"))}, 0},
		"a session above the limit":                             {[]Unit{unit("web", set("web"))}, 100 * time.Hour},
		"a covered session: nothing is written":                 {[]Unit{unit("web", set("web", until(10*minutes+time.Second)))}, 10 * minutes},
		"a session that ends a second too early: it is written": {[]Unit{unit("web", set("web", until(10*minutes)))}, 10 * minutes},
		"a longer session stays":                                {[]Unit{unit("web", set("web", until(50*minutes)))}, minutes},
		"asleep: the session is written":                        {[]Unit{unit("web", set("web", asleep(), until(-time.Hour)))}, 10 * minutes},
		"asleep, and the session is written already":            {[]Unit{unit("web", set("web", asleep(), until(20*minutes)))}, 10 * minutes},
		"about to sleep, with running pods: not ready": {[]Unit{unit("web", set("web", sleep(api.Planned, ""), until(20*minutes)))},
			minutes},
		"stopping: not ready": {[]Unit{unit("web", set("web", sleep(api.Stopping, ""), until(20*minutes)))}, minutes},
		"waking":              {[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(2, 1), until(20*minutes)))}, minutes},
		"waking, and its replicas are not restored yet": {
			[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(0, 0), until(20*minutes)))}, minutes},
		"waking and ready: ready": {[]Unit{unit("web", set("web", sleep(api.Waking, ""), until(20*minutes)))}, minutes},
		"awake, and the controller has not seen the newest spec": {
			[]Unit{unit("web", set("web", func(s *appsv1.StatefulSet) { s.Generation = 3 }, until(20*minutes)))}, minutes},
		"a site that is up stays up while it is scaled up": {[]Unit{unit("web", set("web", replicas(5, 3), until(20*minutes)))}, minutes},
		"a site that is up stays up in a rollout": {
			[]Unit{unit("web", set("web", sleep(api.Succeeded, ""), replicas(3, 2), until(20*minutes)))}, minutes},
		"a failed wake-up, and a replica is ready": {
			[]Unit{unit("web", set("web", sleep(api.Failed, "too late"), replicas(3, 2), until(20*minutes)))}, minutes},
		"a member with some ready replicas does not block the site": {
			[]Unit{unit("web", set("db", replicas(3, 1), until(20*minutes)), set("web"))}, minutes},
		"waking, the first replica is enough": {
			[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(3, 1), with(api.WakeReadyAnnotation, "first"),
				until(20*minutes)))}, minutes},
		"waking, two replicas are enough": {
			[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(3, 1), with(api.WakeReadyAnnotation, "2"), until(20*minutes)))}, minutes},
		"the sleep ended: ready": {[]Unit{unit("web", set("web", sleep(api.Succeeded, ""), until(20*minutes)))}, minutes},
		"the wake-up failed":     {[]Unit{unit("web", set("web", sleep(api.Failed, "no room"), replicas(2, 0), until(20*minutes)))}, minutes},
		"the sleep failed, and the set is restarting": {
			[]Unit{unit("web", set("web", failedAt(api.Stopping), replicas(2, 0), until(20*minutes)))}, minutes},
		"the sleep failed, and left the set at zero": {
			[]Unit{unit("web", set("web", failedAt(api.Stopping), stopped, until(20*minutes)))}, minutes},
		"the sleep failed, and the set runs": {[]Unit{unit("web", set("web", sleep(api.Failed, "no consent"), until(20*minutes)))},
			minutes},
		"scaled to zero by an administrator": {[]Unit{unit("web", set("web", replicas(0, 0), until(20*minutes)))}, minutes},
		"scaled to zero by its operator":     {[]Unit{unit("web", set("web", replicas(0, 0), owned, until(20*minutes)))}, minutes},
		"being resized":                      {[]Unit{unit("web", set("web", replicas(0, 0), resizing, until(20*minutes)))}, minutes},
		"a member at zero has its own session, and it is covered": {
			[]Unit{unit("", set("batch", replicas(0, 0), with(api.WakeReplicasAnnotation, "1"), until(20*minutes)), set("db"))}, 10 * minutes},
		"scaled to zero with wake-replicas": {
			[]Unit{unit("web", set("web", replicas(0, 0), with(api.WakeReplicasAnnotation, "3"), until(20*minutes)))}, minutes},
		"the sleep belongs to another set": {
			[]Unit{unit("web", set("web", asleep(), func(s *appsv1.StatefulSet) { s.UID = "other"; replicas(2, 2)(s) },
				until(20*minutes)))}, minutes},

		"a group: the session is written to the named member": {[]Unit{unit("web", set("db", asleep()), set("web", asleep()))},
			10 * minutes},
		"a group: the session is written to the first member": {[]Unit{unit("", set("db", asleep()), set("web", asleep()))}, 10 * minutes},
		"a group: the session of another member covers all":   {[]Unit{unit("web", set("db", until(20*minutes)), set("web"))}, 10 * minutes},
		"a group with a member that is not ready": {[]Unit{unit("web", set("db", until(20*minutes), replicas(2, 0)), set("web"))},
			10 * minutes},
		"a group has the longest timeout of its members": {
			[]Unit{unit("web", set("db", with(api.IdleTimeoutAnnotation, "40m")), set("web", with(api.IdleTimeoutAnnotation, "")))}, 0},
		"two groups: both sessions are written": {[]Unit{unit("web", set("web")), unit("db", set("db"))}, 10 * minutes},

		"paused: nothing is written":          {[]Unit{unit("web", set("web", asleep(), pausedSet))}, minutes},
		"paused with running pods: not ready": {[]Unit{unit("web", set("web", pausedSet))}, minutes},
		"one of two sets is paused: the other does not wake": {
			[]Unit{unit("web", set("web", pausedSet)), unit("db", set("db", asleep()))}, minutes},
		"a group does not wait for a paused member":       {[]Unit{unit("web", set("db", pausedSet, until(50*minutes)), set("web"))}, minutes},
		"a whole group does not wait for a paused member": {[]Unit{unit("", set("db", pausedSet), set("web", asleep()))}, 10 * minutes},
		"a group waits for a named paused member":         {[]Unit{unit("db", set("db", pausedSet), set("web", asleep()))}, 10 * minutes},
		"a group of paused members":                       {[]Unit{unit("", set("db", pausedSet), set("web", pausedSet))}, 10 * minutes},

		"a group does not wait for a member at zero": {[]Unit{unit("", set("batch", replicas(0, 0)), set("db"), set("web"))}, 10 * minutes},
		"a group waits for a named member at zero":   {[]Unit{unit("batch", set("batch", replicas(0, 0)), set("db"))}, 10 * minutes},
		"a group waits for a member at zero with wake-replicas": {
			[]Unit{unit("", set("batch", replicas(0, 0), with(api.WakeReplicasAnnotation, "1")), set("db", until(20*minutes)))}, minutes},
		"a failed sleep at zero: the session is written": {[]Unit{unit("", set("db", failedAt(api.Waking), stopped))}, 10 * minutes},
		"the record of the resize belongs to another set": {
			[]Unit{unit("web", set("web", replicas(0, 0), resizing, func(s *appsv1.StatefulSet) { s.UID = "other" }))}, minutes},
		"an optional set wakes, and the session does not wait for it": {
			[]Unit{unit("web", set("web")), optional("db", set("db", asleep()))}, 10 * minutes},
		"an optional member of the same group": {
			[]Unit{{Members: unit("", set("db", asleep()), set("web", until(20*minutes))).Members, Named: []string{"web"},
				Optional: []string{"db"}}}, minutes},
		"a short session has slack": {[]Unit{unit("web", set("web"))}, 10 * time.Second},

		"invalid annotations: nothing is written": {[]Unit{unit("web", set("web", with(api.KeepWarmAnnotation, "always")))}, minutes},
		"an unreadable sleep: nothing is written": {[]Unit{unit("web", set("web", with(api.SleepAnnotation, "{")))}, minutes},
		"invalid annotations: the session is written to another member": {
			[]Unit{unit("web", set("db"), set("web", with(api.AwakeUntilAnnotation, "soon")))}, 10 * minutes},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		row := situations[name]
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, renderSession(Input{Now: noon, Session: row.session, Longest: time.Hour, Units: row.units}))
		})
	}
}

func TestOptedIn(t *testing.T) {
	none := with(api.IdleTimeoutAnnotation, "")
	for name, row := range map[string]struct {
		unit Unit
		want bool
	}{
		"a set with a timeout":           {unit("web", set("web")), true},
		"a set without a timeout":        {unit("web", set("web", none)), false},
		"another member has a timeout":   {unit("web", set("db"), set("web", none)), true},
		"an invalid timeout":             {unit("web", set("web", with(api.IdleTimeoutAnnotation, "soon"))), true},
		"a paused set without a timeout": {unit("web", set("web", none, pausedSet)), false},
	} {
		if row.unit.optedIn() != row.want {
			t.Errorf("%s: opted in is %t", name, !row.want)
		}
	}
}

// TestSessionHasItsFullLength simulates random visits of a site. After each visit the set stays awake for the whole session, times only
// move later, and a busy site writes at most once per throttle.
func TestSessionHasItsFullLength(t *testing.T) {
	for n := range seed.Next(t, 200) {
		random := rand.New(rand.NewPCG(n, 0))
		now, writes, web := noon, 0, set("web")
		lengths := []time.Duration{time.Second, 5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
		pick := lengths[:1+random.IntN(len(lengths))]
		shortest := idle.Throttle(pick[0])
		for range 300 {
			now = now.Add(time.Duration(random.Int64N(int64(2 * time.Second))))
			length := pick[random.IntN(len(pick))]
			before := idle.MemberOf(web).Rules.AwakeUntil
			for _, a := range Decide(Input{Now: now, Session: length, Longest: 24 * time.Hour, Units: []Unit{unit("web", web)}}).Actions {
				web.Annotations[api.AwakeUntilAnnotation] = a.Ops[len(a.Ops)-1].Value.(string)
				writes++
			}
			after := idle.MemberOf(web).Rules.AwakeUntil
			if after.Before(now.Add(length)) || after.Before(before) {
				t.Fatalf("seed %d: at %s a session of %s: %s became %s", n, now, length, before, after)
			}
		}
		if most := 2 + int(now.Sub(noon)/max(shortest, time.Second)); writes > most {
			t.Errorf("seed %d: %d writes in %s, at most %d are due", n, writes, now.Sub(noon), most)
		}
	}
}

// TestOptionalSetAtZeroWakesWithItsGroup: its own annotation wakes a set at zero with wake-replicas, and that of its group does not.
func TestOptionalSetAtZeroWakesWithItsGroup(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	member := func(name string, alone bool) Member {
		return Member{Ref: Ref{"shop", name}, Status: Status{State: Asleep, Want: 1}, Group: "g", OptedIn: !alone, Timeout: time.Hour,
			KeepsAwake: true, WakesAlone: alone, Object: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{}}}
	}
	u := Unit{Named: []string{"db"}, Optional: []string{"web"}, Members: []Member{member("db", false), member("web", true)}}
	var written []string
	for _, a := range Decide(Input{Now: now, Longest: 24 * time.Hour, Units: []Unit{u}}).Actions {
		written = append(written, a.Name)
	}
	if !slices.Equal(written, []string{"db", "web"}) {
		t.Errorf("the session is written to %v", written)
	}
}

func unitOfSets(sets ...*appsv1.StatefulSet) Unit {
	u := Unit{}
	for _, s := range sets {
		u.Members = append(u.Members, memberOf(s))
	}
	return u
}

// TestVisitIsNoticedAtOnce: a is awake (its owner cannot be paused), b sleeps. The visit is written to a. An event about a concerns no
// function, so b sleeps until the next tick.
func TestVisitIsNoticedAtOnce(t *testing.T) {
	inShop := labelled(api.GroupLabel, "shop")
	now := time.Now()
	active := with(api.LastActivityAnnotation, now.Add(-2*time.Hour).Format(time.RFC3339))
	a := set("a", inShop, active, func(s *appsv1.StatefulSet) {
		finished := metav1.NewTime(now.Add(-time.Minute))
		doc := &api.Sleep{Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindSleep, Phase: api.Refused,
			Request: idle.RequestIdle, Set: api.SetRef{Name: s.Name, UID: s.UID}, Started: finished, Finished: &finished,
			Reason: api.OwnerNotPausable}, Replicas: 2}
		s.Annotations[api.SleepAnnotation] = doc.Encode()
	})
	b := set("b", inShop, active, replicas(0, 0), sleep(api.Asleep, ""))
	u := unitOfSets(a, b)
	p := Decide(Input{Now: now, Longest: 24 * time.Hour, Units: []Unit{u}})
	if len(p.Actions) != 1 {
		t.Fatal(p)
	}
	written := map[string]*appsv1.StatefulSet{"a": a, "b": b}[p.Actions[0].Name].DeepCopy()
	written.Annotations[api.AwakeUntilAnnotation] = idle.FormatTime(now.Add(31 * time.Minute))
	change := operation.Change{Set: written, Records: operation.Of(written), Now: now, Retry: 10 * time.Minute}
	if len(idle.Concerned(change)) == 0 {
		t.Errorf("the visit is written to %s, and that change concerns no function, although b has to wake", written.Name)
	}
}

// TestVisitKeepsSetAwakeForItsIdleTimeout: a set with an idle timeout of three days sleeps a day after the latest visit.
func TestVisitKeepsSetAwakeForItsIdleTimeout(t *testing.T) {
	web := set("web", with(api.IdleTimeoutAnnotation, "72h"), with(api.LastActivityAnnotation, noon.Add(-100*time.Hour).Format(time.RFC3339)))
	u := unitOfSets(web)
	p := Decide(Input{Now: noon, Longest: defaultLongestSession, Units: []Unit{u}})
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			if text, ok := op.Value.(string); ok {
				if _, err := time.Parse(time.RFC3339, text); err == nil {
					web.Annotations[api.AwakeUntilAnnotation] = text
				}
			}
		}
	}
	group := idle.Group{idle.MemberOf(web)}
	if v := group.Verdicts(noon.Add(25*time.Hour), time.Time{})[0]; !v.Awake {
		t.Errorf("25 hours after a visit: %+v", v)
	}
}

// TestDeletedSetDoesNotKeepTheSiteClosed: idle-timeout does nothing for a set that is being deleted, so no visit wakes it.
func TestDeletedSetDoesNotKeepTheSiteClosed(t *testing.T) {
	inShop := labelled(api.GroupLabel, "shop")
	deleted := metav1.NewTime(noon)
	old := set("old", inShop, replicas(0, 0), sleep(api.Asleep, ""), func(s *appsv1.StatefulSet) {
		s.DeletionTimestamp, s.Finalizers = &deleted, []string{"drydock.dev/cleanup"}
	})
	if s := SessionOf([]Unit{unitOfSets(old, set("web", inShop))}); !s.Ready() {
		t.Errorf("web serves, but the session waits for the deleted set: %+v", s)
	}
}

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
	"drydock.dev/test/golden"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// set builds a set of two replicas that sleeps after half an hour; the changes make it another one.
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

// sleep writes a sleep's document as idle-timeout does.
func sleep(phase api.Phase, message string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		doc := &api.Sleep{
			Header:   api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindSleep, Phase: phase, Request: idle.ForIdle, Set: api.SetRef{Name: s.Name, UID: s.UID}, Started: metav1.NewTime(noon.Add(-time.Hour)), Message: message},
			Replicas: 2,
		}
		if phase == api.Failed {
			finished := metav1.NewTime(noon)
			doc.FailedAt, doc.Finished = api.Waking, &finished
		}
		s.Annotations[api.SleepAnnotation] = doc.Encode()
	}
}

// gaveUpAt writes the document of a sleep that was given up in the phase.
func gaveUpAt(phase api.Phase) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) {
		sleep(api.Failed, "no consent")(s)
		doc, _ := api.LoadSleep(s)
		doc.FailedAt = phase
		s.Annotations[api.SleepAnnotation] = doc.Encode()
	}
}

func owned(s *appsv1.StatefulSet) {
	yes := true
	s.OwnerReferences = []metav1.OwnerReference{{Kind: "Redis", Name: s.Name, Controller: &yes}}
}

func resizing(s *appsv1.StatefulSet) {
	doc := &api.Sleep{Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindResize, Phase: api.Moving, Set: api.SetRef{Name: s.Name, UID: s.UID}}}
	s.Annotations[api.StatusAnnotation] = doc.Encode()
}

func asleep() func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { sleep(api.Asleep, "")(s); replicas(0, 0)(s) }
}

func until(d time.Duration) func(*appsv1.StatefulSet) {
	return with(api.AwakeUntilAnnotation, idle.Stamp(noon.Add(d)))
}

var pausedSet = with(api.PausedAnnotation, "true")

// unit is a group of which some members, separated by commas, were asked for by name.
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

// optional is a unit of which the named sets are not waited for.
func optional(named string, sets ...*appsv1.StatefulSet) Unit {
	u := unit("", sets...)
	u.Optional = []string{named}
	return u
}

// story renders a session, and what is written for it.
func story(in Input) string {
	s := Judge(in.Units)
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
		"awake: the session is written":                          {[]Unit{unit("web", set("web"))}, 10 * minutes},
		"without a duration it is the idle timeout":              {[]Unit{unit("web", set("web"))}, 0},
		"no longer than the longest":                             {[]Unit{unit("web", set("web"))}, 100 * time.Hour},
		"covered already: nothing is written":                    {[]Unit{unit("web", set("web", until(10*minutes+time.Second)))}, 10 * minutes},
		"a second short of that: written":                        {[]Unit{unit("web", set("web", until(10*minutes)))}, 10 * minutes},
		"a longer session stays":                                 {[]Unit{unit("web", set("web", until(50*minutes)))}, minutes},
		"asleep: woken":                                          {[]Unit{unit("web", set("web", asleep(), until(-time.Hour)))}, 10 * minutes},
		"asleep, and it is written already":                      {[]Unit{unit("web", set("web", asleep(), until(20*minutes)))}, 10 * minutes},
		"about to sleep, its pods still there: not ready":        {[]Unit{unit("web", set("web", sleep(api.Planned, ""), until(20*minutes)))}, minutes},
		"stopping: not ready":                                    {[]Unit{unit("web", set("web", sleep(api.Stopping, ""), until(20*minutes)))}, minutes},
		"waking":                                                 {[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(2, 1), until(20*minutes)))}, minutes},
		"waking, its replicas not yet back":                      {[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(0, 0), until(20*minutes)))}, minutes},
		"waking and ready: ready":                                {[]Unit{unit("web", set("web", sleep(api.Waking, ""), until(20*minutes)))}, minutes},
		"awake, and the controller has not seen the newest spec": {[]Unit{unit("web", set("web", func(s *appsv1.StatefulSet) { s.Generation = 3 }, until(20*minutes)))}, minutes},
		"a site that is up stays up while it is scaled up":       {[]Unit{unit("web", set("web", replicas(5, 3), until(20*minutes)))}, minutes},
		"a site that is up stays up in a rollout":                {[]Unit{unit("web", set("web", sleep(api.Succeeded, ""), replicas(3, 2), until(20*minutes)))}, minutes},
		"a wake-up that failed, and a replica is ready":          {[]Unit{unit("web", set("web", sleep(api.Failed, "too late"), replicas(3, 2), until(20*minutes)))}, minutes},
		"a member that is down does not blank the others' site":  {[]Unit{unit("web", set("db", replicas(3, 1), until(20*minutes)), set("web"))}, minutes},
		"waking, the first replica is enough":                    {[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(3, 1), with(api.WakeReadyAnnotation, "first"), until(20*minutes)))}, minutes},
		"waking, two replicas are enough":                        {[]Unit{unit("web", set("web", sleep(api.Waking, ""), replicas(3, 1), with(api.WakeReadyAnnotation, "2"), until(20*minutes)))}, minutes},
		"woke and is over: ready":                                {[]Unit{unit("web", set("web", sleep(api.Succeeded, ""), until(20*minutes)))}, minutes},
		"the wake-up failed":                                     {[]Unit{unit("web", set("web", sleep(api.Failed, "no room"), replicas(2, 0), until(20*minutes)))}, minutes},
		"the sleep failed, and now it is restarted":              {[]Unit{unit("web", set("web", gaveUpAt(api.Stopping), replicas(2, 0), until(20*minutes)))}, minutes},
		"the sleep failed, and left it at zero":                  {[]Unit{unit("web", set("web", gaveUpAt(api.Stopping), replicas(0, 0), until(20*minutes)))}, minutes},
		"the sleep failed, so it is up":                          {[]Unit{unit("web", set("web", sleep(api.Failed, "no consent"), until(20*minutes)))}, minutes},
		"scaled to zero by an administrator":                     {[]Unit{unit("web", set("web", replicas(0, 0), until(20*minutes)))}, minutes},
		"scaled to zero by its operator":                         {[]Unit{unit("web", set("web", replicas(0, 0), owned, until(20*minutes)))}, minutes},
		"being resized":                                          {[]Unit{unit("web", set("web", replicas(0, 0), resizing, until(20*minutes)))}, minutes},
		"a member at zero is written on by itself, once":         {[]Unit{unit("", set("batch", replicas(0, 0), with(api.WakeReplicasAnnotation, "1"), until(20*minutes)), set("db"))}, 10 * minutes},
		"the same with a count":                                  {[]Unit{unit("web", set("web", replicas(0, 0), with(api.WakeReplicasAnnotation, "3"), until(20*minutes)))}, minutes},
		"the sleep of another set's copy says nothing":           {[]Unit{unit("web", set("web", asleep(), func(s *appsv1.StatefulSet) { s.UID = "other"; replicas(2, 2)(s) }, until(20*minutes)))}, minutes},

		"a group: the named one is written":                {[]Unit{unit("web", set("db", asleep()), set("web", asleep()))}, 10 * minutes},
		"a group: the first is written":                    {[]Unit{unit("", set("db", asleep()), set("web", asleep()))}, 10 * minutes},
		"a group: another member's deadline holds for all": {[]Unit{unit("web", set("db", until(20*minutes)), set("web"))}, 10 * minutes},
		"a group is ready when all of it is":               {[]Unit{unit("web", set("db", until(20*minutes), replicas(2, 0)), set("web"))}, 10 * minutes},
		"a group has the longest timeout of its members":   {[]Unit{unit("web", set("db", with(api.IdleTimeoutAnnotation, "40m")), set("web", with(api.IdleTimeoutAnnotation, "")))}, 0},
		"two groups: both are written":                     {[]Unit{unit("web", set("web")), unit("db", set("db"))}, 10 * minutes},

		"paused: nothing is written":                           {[]Unit{unit("web", set("web", asleep(), pausedSet))}, minutes},
		"paused, and still up: not ready":                      {[]Unit{unit("web", set("web", pausedSet))}, minutes},
		"one of two is paused: the other does not wake for it": {[]Unit{unit("web", set("web", pausedSet)), unit("db", set("db", asleep()))}, minutes},
		"a group goes on without a paused member":              {[]Unit{unit("web", set("db", pausedSet, until(50*minutes)), set("web"))}, minutes},
		"a whole group goes on without it":                     {[]Unit{unit("", set("db", pausedSet), set("web", asleep()))}, 10 * minutes},
		"not if it was asked for":                              {[]Unit{unit("db", set("db", pausedSet), set("web", asleep()))}, 10 * minutes},
		"a group that is all paused":                           {[]Unit{unit("", set("db", pausedSet), set("web", pausedSet))}, 10 * minutes},

		"a group goes on without a member at zero":      {[]Unit{unit("", set("batch", replicas(0, 0)), set("db"), set("web"))}, 10 * minutes},
		"not if it was asked for by name":               {[]Unit{unit("batch", set("batch", replicas(0, 0)), set("db"))}, 10 * minutes},
		"a member at zero that a visit wakes is needed": {[]Unit{unit("", set("batch", replicas(0, 0), with(api.WakeReplicasAnnotation, "1")), set("db", until(20*minutes)))}, minutes},
		"a sleep that failed at zero is woken":          {[]Unit{unit("", set("db", gaveUpAt(api.Waking), replicas(0, 0)))}, 10 * minutes},
		"the status of another set's copy says nothing": {[]Unit{unit("web", set("web", replicas(0, 0), resizing, func(s *appsv1.StatefulSet) { s.UID = "other" }))}, minutes},
		"an optional set is woken, and not waited for":  {[]Unit{unit("web", set("web")), optional("db", set("db", asleep()))}, 10 * minutes},
		"an optional member of the same group":          {[]Unit{{Members: unit("", set("db", asleep()), set("web", until(20*minutes))).Members, Named: []string{"web"}, Optional: []string{"db"}}}, minutes},
		"short sessions are not a write each second":    {[]Unit{unit("web", set("web"))}, 10 * time.Second},

		"what is not understood is not written on": {[]Unit{unit("web", set("web", with(api.KeepWarmAnnotation, "always")))}, minutes},
		"nor where its sleep is not understood":    {[]Unit{unit("web", set("web", with(api.SleepAnnotation, "{")))}, minutes},
		"another member is":                        {[]Unit{unit("web", set("db"), set("web", with(api.AwakeUntilAnnotation, "soon")))}, 10 * minutes},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		row := situations[name]
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, story(Input{Now: noon, Session: row.session, Longest: time.Hour, Units: row.units}))
		})
	}
}

func TestOptedIn(t *testing.T) {
	none := with(api.IdleTimeoutAnnotation, "")
	for name, row := range map[string]struct {
		unit Unit
		want bool
	}{
		"with a timeout":                       {unit("web", set("web")), true},
		"without one":                          {unit("web", set("web", none)), false},
		"another of its group has one":         {unit("web", set("db"), set("web", none)), true},
		"one that is not understood":           {unit("web", set("web", with(api.IdleTimeoutAnnotation, "soon"))), true},
		"paused alone is no consent to a wake": {unit("web", set("web", none, pausedSet)), false},
	} {
		if row.unit.optedIn() != row.want {
			t.Errorf("%s: opted in is %t", name, !row.want)
		}
	}
}

// TestNoSessionIsCutShort plays random visits of a site: after each the set is awake for the whole session, deadlines only
// move later, and a busy site writes once in a throttle.
func TestNoSessionIsCutShort(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
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
				t.Fatalf("seed %d: at %s a session of %s: %s became %s", seed, now, length, before, after)
			}
		}
		if most := 2 + int(now.Sub(noon)/max(shortest, time.Second)); writes > most {
			t.Errorf("seed %d: %d writes in %s, at most %d are due", seed, writes, now.Sub(noon), most)
		}
	}
}

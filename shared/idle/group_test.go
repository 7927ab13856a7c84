package idle

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

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

type sets = []*appsv1.StatefulSet

func groupOfSets(all sets) Group {
	var g Group
	for _, s := range all {
		g = append(g, MemberOf(s))
	}
	return g
}

// verdicts renders the verdicts on the group.
func verdicts(g Group, now, asked time.Time) string {
	var all []string
	for i, v := range g.Verdicts(now, asked) {
		word := "sleeps, " + v.Request
		if v.Awake {
			word = "awake: " + v.Why
		}
		all = append(all, g[i].Set.Name+" "+word)
	}
	return strings.Join(all, "; ")
}

func TestVerdictOnOneSet(t *testing.T) {
	hour, used := build.IdleTimeout("1h"), build.LastActivity(2*time.Hour)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	situations := map[string]struct {
		options []build.Option
		asked   time.Duration // ago; 0 is not at all
	}{
		"no annotation":                                           {nil, 0},
		"the last use is older than the timeout":                  {[]build.Option{hour, used}, 0},
		"the last use is younger than the timeout":                {[]build.Option{hour, build.LastActivity(time.Minute)}, 0},
		"a use in the future":                                     {[]build.Option{hour, build.LastActivity(-time.Minute)}, 0},
		"the last use is unknown":                                 {[]build.Option{hour}, 0},
		"the last use is as old as timeout and throttle together": {[]build.Option{hour, build.LastActivity(time.Hour + time.Minute)}, 0},
		"the last use is a second younger than that": {
			[]build.Option{hour, build.LastActivity(time.Hour + time.Minute - time.Second)},
			0,
		},
		"it is paused":                           {[]build.Option{build.Paused()}, 0},
		"paused and in use":                      {[]build.Option{build.Paused(), hour, build.LastActivity(0)}, 0},
		"paused, with awake-until in the future": {[]build.Option{build.Paused(), build.AwakeFor(time.Hour)}, 0},
		"awake-until is in the future":           {[]build.Option{hour, used, build.AwakeFor(time.Second)}, 0},
		"awake-until is over":                    {[]build.Option{hour, used, build.AwakeFor(0)}, 0},
		"kept warm at this hour": {[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Sun 11:00-12:01")},
			0},
		"kept warm by one of two windows": {
			[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Mon 11:00-12:01;Sun 12:00-13:00")}, 0},
		"kept warm at another hour":     {[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Sun 11:00-12:00")}, 0},
		"awake-until without a timeout": {[]build.Option{build.AwakeFor(time.Hour)}, 0},
		"an invalid window": {
			[]build.Option{build.IdleTimeout("1h"), used, build.AwakeFor(0), build.Annotation(api.KeepWarmAnnotation, "x")}, 0},
		"an invalid last activity":             {[]build.Option{hour, build.Annotation(api.LastActivityAnnotation, "yesterday")}, 0},
		"an unreadable sleep":                  {[]build.Option{hour, used, build.Annotation(api.SleepAnnotation, "{")}, 0},
		"at zero and not used":                 {[]build.Option{hour, used, build.Replicas(0)}, 0},
		"at zero, and the last use is unknown": {[]build.Option{hour, build.Replicas(0)}, 0},
		"ready for less than the minimum uptime": {
			[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), sleep(api.Succeeded, build.ReadyFor(29*time.Minute))}, 0},
		"ready for the minimum uptime": {
			[]build.Option{build.IdleTimeout("10s"), used, build.Annotation(api.MinUptimeAnnotation, "30m"),
				sleep(api.Succeeded, build.ReadyFor(30*time.Minute))}, 0},
		"created less than the minimum uptime ago": {
			[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), build.Age(29 * time.Minute)}, 0},
		"created the minimum uptime ago": {
			[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), build.Age(30 * time.Minute)}, 0},
		"ready after the last use": {[]build.Option{hour, used, sleep(api.Succeeded, build.ReadyFor(time.Hour))}, 0},
		"a sleep event arrives":    {[]build.Option{hour, build.LastActivity(time.Minute)}, time.Second},
		"the annotation requests a sleep": {
			[]build.Option{hour, build.LastActivity(time.Minute), build.Annotation(api.SleepRequestedAnnotation,
				build.Now.Add(-time.Second).Format(time.RFC3339))}, 0},
		"the annotation requests a sleep in the future": {
			[]build.Option{hour, build.LastActivity(time.Minute), build.Annotation(api.SleepRequestedAnnotation,
				build.Now.Add(time.Hour).Format(time.RFC3339))}, 0},
		"the annotation requests a sleep before the last use": {
			[]build.Option{hour, build.LastActivity(time.Minute), build.Annotation(api.SleepRequestedAnnotation,
				build.Now.Add(-time.Hour).Format(time.RFC3339))}, 0},
		"a sleep event arrives, and the last use is unknown": {[]build.Option{hour}, time.Second},
		"a sleep event arrives without a timeout":            {nil, time.Second},
		"a sleep event is older than the last use":           {[]build.Option{hour, build.LastActivity(time.Minute)}, time.Hour},
		"a use in the second of the sleep event wins": {[]build.Option{hour, build.LastActivity(time.Second)},
			time.Second - time.Millisecond},
		"a sleep event arrives for a paused set":                {[]build.Option{hour, build.Paused()}, time.Second},
		"a sleep event arrives, with awake-until in the future": {[]build.Option{hour, used, build.AwakeFor(time.Hour)}, time.Second},
		"a sleep event arrives before the minimum uptime": {
			[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m")}, time.Second},
		"asleep":                             {[]build.Option{hour, used, sleep(api.Asleep)}, 0},
		"used before it fell asleep":         {[]build.Option{hour, build.LastActivity(61 * time.Second), sleep(api.Asleep)}, 0},
		"used in the second of the decision": {[]build.Option{hour, build.LastActivity(time.Minute), sleep(api.Asleep)}, 0},
		"used after the decision":            {[]build.Option{hour, build.LastActivity(59 * time.Second), sleep(api.Planned)}, 0},
		"asleep, and kept warm": {
			[]build.Option{hour, used, sleep(api.Asleep), build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")}, 0},
		"asleep, and the timeout was removed": {[]build.Option{used, sleep(api.Asleep)}, 0},
		"asleep on request": {
			[]build.Option{hour, build.LastActivity(2 * time.Minute), sleep(api.Asleep, build.SleepCause(RequestAsked))},
			0,
		},
		"asleep and paused": {[]build.Option{build.Paused(), sleep(api.Asleep, build.SleepCause(RequestPaused))}, 0},
		"asleep by a pause, and used": {
			[]build.Option{build.Paused(), hour, build.LastActivity(0), sleep(api.Asleep, build.SleepCause(RequestPaused))}, 0},
		"asleep by a pause that has ended": {[]build.Option{hour, used, sleep(api.Asleep, build.SleepCause(RequestPaused))}, 0},
		"waking":                           {[]build.Option{hour, used, sleep(api.Waking)}, 0},
		"paused while it wakes":            {[]build.Option{build.Paused(), hour, sleep(api.Waking)}, 0},
		"the sleep belongs to another set": {[]build.Option{hour, used, sleep(api.Waking), build.UID("uid-2")}, 0},
		"a failed sleep":                   {[]build.Option{hour, used, sleep(api.Failed)}, 0},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		row := situations[name]
		t.Run(name, func(t *testing.T) {
			var asked time.Time
			if row.asked != 0 {
				asked = build.Now.Add(-row.asked)
			}
			file.Entry(t, name, verdicts(groupOfSets(sets{build.Set("web", row.options...)}), build.Now, asked))
		})
	}
}

func TestVerdictsOnGroup(t *testing.T) {
	hour, used, now := build.IdleTimeout("1h"), build.LastActivity(2*time.Hour), build.LastActivity(0)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	db := func(options ...build.Option) *appsv1.StatefulSet { return build.Set("db", options...) }
	web := func(options ...build.Option) *appsv1.StatefulSet { return build.Set("web", options...) }
	situations := map[string]struct {
		sets  sets
		asked bool
	}{
		"no set is used":  {sets{db(hour, used), web(hour, used)}, false},
		"one set is used": {sets{db(hour, now), web(hour, used)}, false},
		"one set has a timeout, which applies to all": {sets{db(hour, used), web(used)}, false},
		"the set without a timeout is used":           {sets{db(now), web(hour, used)}, false},
		"no set has a timeout":                        {sets{db(used), web(used)}, false},
		"the longest timeout counts": {sets{db(hour, build.LastActivity(30*time.Minute)), web(build.IdleTimeout("10m"), used)},
			false},
		"an invalid timeout":                              {sets{db(build.IdleTimeout("2 hours"), used), web(hour, used)}, false},
		"the last use of one set is unknown":              {sets{db(hour, used), web()}, false},
		"one set is at zero, and its last use is unknown": {sets{db(hour, used), web(build.Replicas(0))}, false},
		"a paused set is in use":                          {sets{db(hour, used), web(hour, now, build.Paused())}, false},
		"one set is paused, and the other is used":        {sets{db(hour, now), web(hour, used, build.Paused())}, false},
		"one set is asleep, and the other is used": {sets{db(hour, used, sleep(api.Asleep)), web(hour, build.LastActivity(30*time.Second))},
			false},
		"one set wakes, and the other follows": {sets{db(hour, used, sleep(api.Asleep)), web(hour, used, sleep(api.Waking))}, false},
		"the sleep of one set is unreadable": {
			sets{db(hour, used, sleep(api.Asleep)), web(hour, used, build.Annotation(api.SleepAnnotation, "{"))}, false},
		"one set is kept warm": {sets{db(hour, used), web(used, build.Annotation(api.KeepWarmAnnotation, "Sun 00:00-24:00"))},
			false},
		"a sleep event arrives after the last use":     {sets{db(hour, build.LastActivity(time.Minute)), web(hour, used)}, true},
		"a sleep event arrives in the second of a use": {sets{db(hour, now), web(hour, used)}, true},
		"one set is asleep on request: the other follows": {
			sets{db(hour, build.LastActivity(90*time.Second)), web(hour, used, sleep(api.Asleep, build.SleepCause(RequestAsked)))}, false},
		"one set is asleep on request, and the other was used since": {
			sets{db(hour, build.LastActivity(30*time.Second)), web(hour, used, sleep(api.Asleep, build.SleepCause(RequestAsked)))}, false},
		"a requested sleep that has ended": {
			sets{db(hour, build.LastActivity(90*time.Second)), web(hour, used, sleep(api.Succeeded, build.SleepCause(RequestAsked)))}, false},
		"a new sleep event is later than the last use": {
			sets{db(hour, build.LastActivity(30*time.Second)), web(hour, used, sleep(api.Asleep, build.SleepCause(RequestAsked)))}, true},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		row := situations[name]
		t.Run(name, func(t *testing.T) {
			var asked time.Time
			if row.asked {
				asked = build.Now.Add(500 * time.Millisecond)
			}
			file.Entry(t, name, verdicts(groupOfSets(row.sets), build.Now.Add(time.Second), asked))
		})
	}
}

func TestWhenActivityIsStored(t *testing.T) {
	hour := build.IdleTimeout("1h")
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	for name, row := range map[string]struct {
		options []build.Option
		ago     time.Duration
		want    bool
	}{
		"no activity is stored":                        {[]build.Option{hour}, 0, true},
		"a minute later":                               {[]build.Option{hour, build.LastActivity(time.Minute)}, 0, true},
		"the stored activity is younger than a minute": {[]build.Option{hour, build.LastActivity(59 * time.Second)}, 0, false},
		"the activity is older than the stored one":    {[]build.Option{hour, build.LastActivity(time.Minute)}, 2 * time.Minute, false},
		"a tenth of a short timeout":                   {[]build.Option{build.IdleTimeout("1m"), build.LastActivity(6 * time.Second)}, 0, true},
		"less than a tenth of a short timeout":         {[]build.Option{build.IdleTimeout("1m"), build.LastActivity(5 * time.Second)}, 0, false},
		"asleep, and the activity is a second after the stored one": {[]build.Option{hour, build.LastActivity(61 * time.Second), asleep},
			60 * time.Second, true},
		"asleep, and an old activity is later than the stored one": {[]build.Option{hour, build.LastActivity(2 * time.Hour), asleep},
			time.Hour, true},
		"asleep, and the activity is stored already": {
			[]build.Option{hour, build.LastActivity(time.Hour), asleep}, time.Hour, false,
		},
		"asleep, and an activity after the decision is stored": {
			[]build.Option{hour, build.LastActivity(30 * time.Second), asleep}, 0, false,
		},
		"asleep, and the activity after the decision is a minute old": {[]build.Option{hour, build.LastActivity(time.Minute), asleep}, 0, true},
		"after a sleep, within the throttle": {
			[]build.Option{hour, build.LastActivity(2 * time.Second), build.WithSleep(build.Sleep(api.Failed))}, 0, false},
		"there is no timeout": {[]build.Option{build.LastActivity(time.Second)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupOfSets(sets{build.Set("web", row.options...)})
			if got := g.StoresActivity(g[0], build.Now.Add(-row.ago)); got != row.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// TestActivityAfterSleepRequestIsStored: otherwise a set whose turn to sleep has not come would fall asleep in spite of the activity.
func TestActivityAfterSleepRequestIsStored(t *testing.T) {
	g := groupOfSets(sets{
		build.Set("db", build.IdleTimeout("1h"), build.LastActivity(40*time.Second)),
		build.Set("web", build.IdleTimeout("1h"), build.LastActivity(2*time.Hour), build.DependsOn("db"),
			build.WithSleep(build.Sleep(api.Stopping, build.SleepStarted(20*time.Second), build.SleepCause(RequestAsked)))),
	})
	if got := verdicts(g, build.Now, time.Time{}); got != "db sleeps, asked; web sleeps, asked" {
		t.Fatal(got)
	}
	if !g.StoresActivity(g[0], build.Now) {
		t.Error("the use of db after the sleep request is not stored")
	}
}

// TestThrottleDoesNotShortenTimeout: whenever activities come, and whichever of them are stored, the set stays awake for its timeout after
// the last one.
func TestThrottleDoesNotShortenTimeout(t *testing.T) {
	dice := rand.New(rand.NewPCG(seed.Of(t), 0)) // no secret depends on it
	for range 300 {
		timeout := 10*time.Second + time.Duration(dice.Int64N(int64(30*time.Minute)))
		now, last := build.Now, build.Now
		set := build.Set("web", build.IdleTimeout(timeout.String()), build.LastActivity(0))
		for range 20 {
			now = now.Add(time.Duration(dice.Int64N(int64(timeout))))
			last = now
			if g := groupOfSets(sets{set}); g.StoresActivity(g[0], now) {
				build.With(set, build.Annotation(api.LastActivityAnnotation, FormatTime(now)))
			}
		}
		if v := groupOfSets(sets{set}).Verdicts(last.Add(timeout-time.Millisecond), time.Time{})[0]; !v.Awake {
			t.Fatalf("used at %s, stored %s, and asleep before %s have passed", last, set.Annotations[api.LastActivityAnnotation], timeout)
		}
		if v := groupOfSets(sets{set}).Verdicts(last.Add(timeout+2*Throttle(timeout)+2*time.Second), time.Time{})[0]; v.Awake {
			t.Fatalf("awake long after the last use at %s", last)
		}
	}
}

// TestVerdictWithoutGroup: a set that sleeps with its group does not wake because its own annotations say little.
func TestVerdictWithoutGroup(t *testing.T) {
	shop, hour, used := build.InGroup("shop"), build.IdleTimeout("1h"), build.LastActivity(2*time.Hour)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool // awake
	}{
		"no timeout, no group":    {[]build.Option{used, sleep(api.Asleep)}, true},
		"a group, and no timeout": {[]build.Option{shop, used, sleep(api.Asleep)}, false},
		"about to sleep":          {[]build.Option{shop, used, sleep(api.Planned)}, false},
		"the last use is unknown": {[]build.Option{shop, sleep(api.Stopping)}, false},
		"used after the decision": {[]build.Option{shop, build.LastActivity(0), sleep(api.Asleep)}, true},
		"a keep-warm window is open": {
			[]build.Option{shop, used, sleep(api.Asleep), build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")}, true},
		"asleep by a pause that has ended": {[]build.Option{shop, used, sleep(api.Asleep, build.SleepCause(RequestPaused))}, true},
		"paused": {
			[]build.Option{shop, used, build.Paused(), sleep(api.Asleep, build.SleepCause(RequestPaused))}, false,
		},
		"an invalid annotation":     {[]build.Option{shop, hour, build.DependsOn("/"), sleep(api.Asleep)}, true},
		"waking":                    {[]build.Option{shop, used, sleep(api.Waking)}, true},
		"it runs without a timeout": {[]build.Option{shop, used}, true},
		"a timeout":                 {[]build.Option{shop, hour, used, sleep(api.Asleep)}, false},
		"a timeout, and used":       {[]build.Option{shop, hour, build.LastActivity(0)}, true},
	} {
		if v := MemberOf(build.Set("web", row.options...)).VerdictAlone(build.Now); v.Awake != row.want || v.Why == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestTimeoutOfGroup(t *testing.T) {
	g := groupOfSets(sets{build.Set("a"), build.Set("b", build.IdleTimeout("10m")), build.Set("c", build.IdleTimeout("1h")),
		build.Set("d", build.IdleTimeout("x"))})
	if got := g.Timeout(); got != time.Hour {
		t.Error(got)
	}
	if got := (Group{}).Timeout(); got != 0 {
		t.Error(got)
	}
}

func TestDependencyOrder(t *testing.T) {
	on := func(name string, needs ...string) *appsv1.StatefulSet {
		if len(needs) == 0 {
			return build.Set(name, build.InGroup("shop"))
		}
		return build.Set(name, build.InGroup("shop"), build.DependsOn(needs...))
	}
	groups := map[string]struct {
		sets  sets
		want  string
		fails bool
	}{
		"nothing":                            {nil, "", false},
		"by name":                            {sets{on("c"), on("a"), on("b")}, "a b c", false},
		"dependencies come first":            {sets{on("a", "c"), on("b", "a"), on("c")}, "c a b", false},
		"a diamond":                          {sets{on("a", "b", "c"), on("b", "d"), on("c", "d"), on("d")}, "d b c a", false},
		"a set that depends on itself":       {sets{on("a", "a"), on("b")}, "a b", true},
		"two sets that depend on each other": {sets{on("a", "b"), on("b", "a"), on("c")}, "a b c", true},
		"a set that depends on a cycle":      {sets{on("a", "b"), on("b", "c"), on("c", "b"), on("d")}, "a b c d", true},
		"a dependency that does not exist":   {sets{on("a", "x"), on("b")}, "a b", true},
		"a set without a group":              {sets{build.Set("a", build.DependsOn("b"))}, "a", true},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		row := groups[name]
		t.Run(name, func(t *testing.T) {
			g := groupOfSets(row.sets)
			before := fmt.Sprint(names(g))
			sorted, err := g.WakeOrder()
			if got := strings.Join(names(sorted), " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if (err != nil) != row.fails {
				t.Fatalf("%v, want an error: %t", err, row.fails)
			}
			if err != nil {
				file.Entry(t, name, err.Error())
			}
			if after := fmt.Sprint(names(g)); after != before {
				t.Errorf("the input group was changed to %s", after)
			}
		})
	}
}

func names(g Group) []string {
	var all []string
	for _, m := range g {
		all = append(all, m.Set.Name)
	}
	return all
}

// TestDependencyOrderIsDeterministic: the order of a list call does not matter.
func TestDependencyOrderIsDeterministic(t *testing.T) {
	all := sets{build.Set("db"), build.Set("queue", build.DependsOn("db")), build.Set("cache"),
		build.Set("web", build.DependsOn("queue", "cache")), build.Set("mail", build.DependsOn("queue"))}
	want, err := groupOfSets(all).WakeOrder()
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(seed.Of(t), 0))
	for range 50 {
		dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, err := groupOfSets(all).WakeOrder(); err != nil || !slices.Equal(names(got), names(want)) {
			t.Errorf("%v, %v; want %v", names(got), err, names(want))
		}
	}
}

// TestOrderOfLargeGroup: a tenant may write thousands of dependencies, and the sweep sorts the groups of all tenants. An order that
// searches the group for each dependency would take an hour here.
func TestOrderOfLargeGroup(t *testing.T) {
	const half = 1000
	var all sets
	var shared []string
	for i := range half {
		shared = append(shared, fmt.Sprintf("a%03d", i))
		all = append(all, build.Set(shared[i], build.InGroup("shop")))
	}
	for i := range half { // each needs half of the others, and the next one by name
		needs := slices.Clone(shared[:half/2])
		if i < half-1 {
			needs = append(needs, fmt.Sprintf("z%03d", i+1))
		}
		all = append(all, build.Set(fmt.Sprintf("z%03d", i), build.InGroup("shop"), build.DependsOn(needs...)))
	}
	sorted, err := groupOfSets(all).WakeOrder()
	if err != nil || len(sorted) != len(all) {
		t.Fatalf("%d sets, %v", len(sorted), err)
	}
	ready := map[string]bool{}
	for _, m := range sorted {
		for _, name := range m.Rules.DependsOn {
			if !ready[name] {
				t.Fatalf("%s comes before its dependency %s", m.Set.Name, name)
			}
		}
		ready[m.Set.Name] = true
	}
}

// TestSleepRequestMeansNoNewMember: a member that is created after the request has no known activity, and keeps its group awake.
func TestSleepRequestMeansNoNewMember(t *testing.T) {
	requested := build.Now.Add(-time.Hour)
	for name, row := range map[string]struct {
		created time.Time
		awake   bool
	}{"created before the request": {requested.Add(-time.Minute), false}, "created after it": {requested.Add(time.Minute), true}} {
		db := build.Set("db", build.InGroup("shop"), build.IdleTimeout("30m"), build.LastActivity(2*time.Hour),
			build.Annotation(api.SleepRequestedAnnotation, FormatTime(requested)))
		web := build.Set("web", build.InGroup("shop"))
		db.CreationTimestamp, web.CreationTimestamp = metav1.NewTime(requested.Add(-24*time.Hour)), metav1.NewTime(row.created)
		for i, v := range groupOfSets(sets{db, web}).Verdicts(build.Now, time.Time{}) {
			if v.Awake != row.awake {
				t.Errorf("%s, member %d: %+v", name, i, v)
			}
		}
	}
}

// TestOldRequestIsNoReasonForSleep: the set was asked to sleep a week ago, and used since. Its next sleep is one for want of activity, for
// which its probe is asked.
func TestOldRequestIsNoReasonForSleep(t *testing.T) {
	for name, row := range map[string]struct {
		used time.Duration
		want string
	}{
		"used since":     {-2 * time.Hour, RequestIdle},
		"not used since": {-8 * 24 * time.Hour, RequestAsked},
	} {
		set := build.Set("web", build.Annotation(api.IdleTimeoutAnnotation, "30m"),
			build.Annotation(api.SleepRequestedAnnotation, FormatTime(build.Now.Add(-7*24*time.Hour))),
			build.Annotation(api.LastActivityAnnotation, FormatTime(build.Now.Add(row.used))),
			func(o metav1.Object) { o.SetCreationTimestamp(metav1.NewTime(build.Now.Add(-1000 * time.Hour))) })
		if v := (Group{MemberOf(set)}).Verdicts(build.Now, time.Time{})[0]; v.Request != row.want {
			t.Errorf("%s: %+v, want %s", name, v, row.want)
		}
	}
}

// TestVisitsAfterRequestAskTheProbes: a user requested a sleep two hours ago, during a session of the gateway. Visitors used the set for
// two more hours. The gateway moves awake-until and never last-activity. The set may have live connections, so its probe has to be asked.
func TestVisitsAfterRequestAskTheProbes(t *testing.T) {
	set := build.Set("web", build.Replicas(3), build.IdleTimeout("30m"), build.LastActivity(3*time.Hour), // when it woke
		build.Annotation(api.SleepRequestedAnnotation, FormatTime(build.Now.Add(-2*time.Hour))),
		build.Annotation(api.AwakeUntilAnnotation, FormatTime(build.Now.Add(-time.Second))), // the last visit was half an hour ago
		build.Annotation(api.ActivityProbeAnnotation, "tcp:5432"))
	if v := MemberOf(set).VerdictAlone(build.Now); v.Awake || !v.Probes {
		t.Errorf("%+v: no probe is asked, although visits moved awake-until for 90 minutes after the request", v)
	}
}

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

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

type sets = []*appsv1.StatefulSet

func groupOfSets(all sets) Group {
	var g Group
	for _, s := range all {
		g = append(g, MemberOf(s))
	}
	return g
}

// verdicts renders what is to become of each member, as NAME: VERDICT.
func verdicts(g Group, now, asked time.Time) string {
	var all []string
	for i, v := range g.Judge(now, asked) {
		word := "sleeps, " + v.Request
		if v.Awake {
			word = "awake: " + v.Why
		}
		all = append(all, g[i].Set.Name+" "+word)
	}
	return strings.Join(all, "; ")
}

func TestJudgeOfASetAlone(t *testing.T) {
	hour, used := build.IdleTimeout("1h"), build.Active(2*time.Hour)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	situations := map[string]struct {
		options []build.Option
		asked   time.Duration // ago; 0 is not at all
	}{
		"nothing is written":                        {nil, 0},
		"it was not used for so long":               {[]build.Option{hour, used}, 0},
		"its last use is younger":                   {[]build.Option{hour, build.Active(time.Minute)}, 0},
		"a use in the future":                       {[]build.Option{hour, build.Active(-time.Minute)}, 0},
		"nobody knows its last use":                 {[]build.Option{hour}, 0},
		"the timeout, and the throttle":             {[]build.Option{hour, build.Active(time.Hour + time.Minute)}, 0},
		"a second before that":                      {[]build.Option{hour, build.Active(time.Hour + time.Minute - time.Second)}, 0},
		"it is paused":                              {[]build.Option{build.Paused()}, 0},
		"paused, whatever it is used":               {[]build.Option{build.Paused(), hour, build.Active(0)}, 0},
		"paused goes over awake until":              {[]build.Option{build.Paused(), build.AwakeFor(time.Hour)}, 0},
		"awake until a time":                        {[]build.Option{hour, used, build.AwakeFor(time.Second)}, 0},
		"that time has come":                        {[]build.Option{hour, used, build.AwakeFor(0)}, 0},
		"kept warm at this hour":                    {[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Sun 11:00-12:01")}, 0},
		"kept warm by one of two":                   {[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Mon 11:00-12:01;Sun 12:00-13:00")}, 0},
		"kept warm at another hour":                 {[]build.Option{hour, used, build.Annotation(api.KeepWarmAnnotation, "Sun 11:00-12:00")}, 0},
		"awake words need no timeout":               {[]build.Option{build.AwakeFor(time.Hour)}, 0},
		"what is wrong keeps it awake":              {[]build.Option{build.IdleTimeout("1h"), used, build.AwakeFor(0), build.Annotation(api.KeepWarmAnnotation, "x")}, 0},
		"also what only is not new":                 {[]build.Option{hour, build.Annotation(api.LastActivityAnnotation, "yesterday")}, 0},
		"a sleep nobody can read":                   {[]build.Option{hour, used, build.Annotation(api.SleepAnnotation, "{")}, 0},
		"at zero, nobody wants it":                  {[]build.Option{hour, used, build.Replicas(0)}, 0},
		"at zero, of unknown use":                   {[]build.Option{hour, build.Replicas(0)}, 0},
		"not up for long":                           {[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), sleep(api.Succeeded, build.Up(29*time.Minute))}, 0},
		"up for long, but just then":                {[]build.Option{build.IdleTimeout("10s"), used, build.Annotation(api.MinUptimeAnnotation, "30m"), sleep(api.Succeeded, build.Up(30*time.Minute))}, 0},
		"up since it was made":                      {[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), build.Age(29 * time.Minute)}, 0},
		"made long ago":                             {[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m"), build.Age(30 * time.Minute)}, 0},
		"ready after its last use":                  {[]build.Option{hour, used, sleep(api.Succeeded, build.Up(time.Hour))}, 0},
		"asked":                                     {[]build.Option{hour, build.Active(time.Minute)}, time.Second},
		"a sleep is requested":                      {[]build.Option{hour, build.Active(time.Minute), build.Annotation(api.SleepRequestedAnnotation, build.Now.Add(-time.Second).Format(time.RFC3339))}, 0},
		"a sleep is requested for later":            {[]build.Option{hour, build.Active(time.Minute), build.Annotation(api.SleepRequestedAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339))}, 0},
		"a sleep was requested before its last use": {[]build.Option{hour, build.Active(time.Minute), build.Annotation(api.SleepRequestedAnnotation, build.Now.Add(-time.Hour).Format(time.RFC3339))}, 0},
		"asked, of unknown use":                     {[]build.Option{hour}, time.Second},
		"asked, without a timeout":                  {nil, time.Second},
		"asked before its last use":                 {[]build.Option{hour, build.Active(time.Minute)}, time.Hour},
		"a use in the same second wins":             {[]build.Option{hour, build.Active(time.Second)}, time.Second - time.Millisecond},
		"asked, but paused is more":                 {[]build.Option{hour, build.Paused()}, time.Second},
		"asked, but awake until":                    {[]build.Option{hour, used, build.AwakeFor(time.Hour)}, time.Second},
		"asked, but not up for long":                {[]build.Option{hour, used, build.Annotation(api.MinUptimeAnnotation, "30m")}, time.Second},
		"asleep":                                    {[]build.Option{hour, used, sleep(api.Asleep)}, 0},
		"used before it fell asleep":                {[]build.Option{hour, build.Active(61 * time.Second), sleep(api.Asleep)}, 0},
		"used in the second it began":               {[]build.Option{hour, build.Active(time.Minute), sleep(api.Asleep)}, 0},
		"used since":                                {[]build.Option{hour, build.Active(59 * time.Second), sleep(api.Planned)}, 0},
		"asleep, and kept warm":                     {[]build.Option{hour, used, sleep(api.Asleep), build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")}, 0},
		"asleep, the timeout was taken":             {[]build.Option{used, sleep(api.Asleep)}, 0},
		"asleep since somebody asked":               {[]build.Option{hour, build.Active(2 * time.Minute), sleep(api.Asleep, build.Because(ForAsk))}, 0},
		"asleep and paused":                         {[]build.Option{build.Paused(), sleep(api.Asleep, build.Because(ForPause))}, 0},
		"paused, used meanwhile":                    {[]build.Option{build.Paused(), hour, build.Active(0), sleep(api.Asleep, build.Because(ForPause))}, 0},
		"not paused any more":                       {[]build.Option{hour, used, sleep(api.Asleep, build.Because(ForPause))}, 0},
		"waking":                                    {[]build.Option{hour, used, sleep(api.Waking)}, 0},
		"paused while it wakes":                     {[]build.Option{build.Paused(), hour, sleep(api.Waking)}, 0},
		"I3: the sleep is another set's":            {[]build.Option{hour, used, sleep(api.Waking), build.UID("uid-2")}, 0},
		"a sleep that is over":                      {[]build.Option{hour, used, sleep(api.Failed)}, 0},
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

func TestJudgeOfAGroup(t *testing.T) {
	hour, used, now := build.IdleTimeout("1h"), build.Active(2*time.Hour), build.Active(0)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	db := func(options ...build.Option) *appsv1.StatefulSet { return build.Set("db", options...) }
	web := func(options ...build.Option) *appsv1.StatefulSet { return build.Set("web", options...) }
	situations := map[string]struct {
		sets  sets
		asked bool
	}{
		"nobody uses one of them":                   {sets{db(hour, used), web(hour, used)}, false},
		"one is used":                               {sets{db(hour, now), web(hour, used)}, false},
		"one has a timeout, which is for all":       {sets{db(hour, used), web(used)}, false},
		"one without is used":                       {sets{db(now), web(hour, used)}, false},
		"none has a timeout":                        {sets{db(used), web(used)}, false},
		"the longest timeout counts":                {sets{db(hour, build.Active(30*time.Minute)), web(build.IdleTimeout("10m"), used)}, false},
		"a timeout that cannot be read is for none": {sets{db(build.IdleTimeout("2 hours"), used), web(hour, used)}, false},
		"nobody knows the use of one":               {sets{db(hour, used), web()}, false},
		"one is at zero, of unknown use":            {sets{db(hour, used), web(build.Replicas(0))}, false},
		"one is paused, and keeps nobody":           {sets{db(hour, used), web(hour, now, build.Paused())}, false},
		"one is paused, the other is used":          {sets{db(hour, now), web(hour, used, build.Paused())}, false},
		"one sleeps, the other is used":             {sets{db(hour, used, sleep(api.Asleep)), web(hour, build.Active(30*time.Second))}, false},
		"one wakes, the other follows":              {sets{db(hour, used, sleep(api.Asleep)), web(hour, used, sleep(api.Waking))}, false},
		"a sleep of one that nobody can read":       {sets{db(hour, used, sleep(api.Asleep)), web(hour, used, build.Annotation(api.SleepAnnotation, "{"))}, false},
		"one keeps all warm":                        {sets{db(hour, used), web(used, build.Annotation(api.KeepWarmAnnotation, "Sun 00:00-24:00"))}, false},
		"asked, and one was used before":            {sets{db(hour, build.Active(time.Minute)), web(hour, used)}, true},
		"asked, and one was used in that second":    {sets{db(hour, now), web(hour, used)}, true},
		"asked for, one is on its way: the other does not wake it, nor stays": {
			sets{db(hour, build.Active(90*time.Second)), web(hour, used, sleep(api.Asleep, build.Because(ForAsk)))}, false},
		"asked for, and the other was used since": {
			sets{db(hour, build.Active(30*time.Second)), web(hour, used, sleep(api.Asleep, build.Because(ForAsk)))}, false},
		"an asking that is over": {
			sets{db(hour, build.Active(90*time.Second)), web(hour, used, sleep(api.Succeeded, build.Because(ForAsk)))}, false},
		"what somebody asks now is later than what was asked for": {
			sets{db(hour, build.Active(30*time.Second)), web(hour, used, sleep(api.Asleep, build.Because(ForAsk)))}, true},
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

func TestTouch(t *testing.T) {
	hour := build.IdleTimeout("1h")
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	for name, row := range map[string]struct {
		options []build.Option
		ago     time.Duration
		want    bool
	}{
		"never before":                              {[]build.Option{hour}, 0, true},
		"a minute later":                            {[]build.Option{hour, build.Active(time.Minute)}, 0, true},
		"within the minute: I7":                     {[]build.Option{hour, build.Active(59 * time.Second)}, 0, false},
		"an old one":                                {[]build.Option{hour, build.Active(time.Minute)}, 2 * time.Minute, false},
		"a tenth of a short timeout":                {[]build.Option{build.IdleTimeout("1m"), build.Active(6 * time.Second)}, 0, true},
		"less than that":                            {[]build.Option{build.IdleTimeout("1m"), build.Active(5 * time.Second)}, 0, false},
		"asleep, right after the last use":          {[]build.Option{hour, build.Active(61 * time.Second), asleep}, 60 * time.Second, true},
		"asleep, an old one, but later than known":  {[]build.Option{hour, build.Active(2 * time.Hour), asleep}, time.Hour, true},
		"asleep, one that is known":                 {[]build.Option{hour, build.Active(time.Hour), asleep}, time.Hour, false},
		"asleep, and somebody has called":           {[]build.Option{hour, build.Active(30 * time.Second), asleep}, 0, false},
		"asleep, somebody has called a minute ago":  {[]build.Option{hour, build.Active(time.Minute), asleep}, 0, true},
		"its sleep is over, the throttle is there":  {[]build.Option{hour, build.Active(2 * time.Second), build.WithSleep(build.Sleep(api.Failed))}, 0, false},
		"nobody needs to know: there is no timeout": {[]build.Option{build.Active(time.Second)}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := groupOfSets(sets{build.Set("web", row.options...)})
			if got := g.Touch(g[0], build.Now.Add(-row.ago)); got != row.want {
				t.Errorf("%t", got)
			}
		})
	}
}

// TestAnActivityAfterTheAskingIsWorthWritingDown, also when the set's turn to sleep has not come: else it falls asleep in
// spite of it.
func TestAnActivityAfterTheAskingIsWorthWritingDown(t *testing.T) {
	g := groupOfSets(sets{
		build.Set("db", build.IdleTimeout("1h"), build.Active(40*time.Second)),
		build.Set("web", build.IdleTimeout("1h"), build.Active(2*time.Hour), build.DependsOn("db"), build.WithSleep(build.Sleep(api.Stopping, build.Began(20*time.Second), build.Because(ForAsk)))),
	})
	if got := verdicts(g, build.Now, time.Time{}); got != "db sleeps, asked; web sleeps, asked" {
		t.Fatal(got)
	}
	if !g.Touch(g[0], build.Now) {
		t.Error("db is used after somebody has asked for the sleep, and nobody writes that down")
	}
}

// TestThrottleNeverEndsASetsTimeEarly: whenever activities come, and whichever of them are written down, the set is awake
// for its timeout after the last one.
func TestThrottleNeverEndsASetsTimeEarly(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret depends on it
	for range 300 {
		timeout := 10*time.Second + time.Duration(dice.Int64N(int64(30*time.Minute)))
		now, last := build.Now, build.Now
		set := build.Set("web", build.IdleTimeout(timeout.String()), build.Active(0))
		for range 20 {
			now = now.Add(time.Duration(dice.Int64N(int64(timeout))))
			last = now
			if g := groupOfSets(sets{set}); g.Touch(g[0], now) {
				build.With(set, build.Annotation(api.LastActivityAnnotation, Stamp(now)))
			}
		}
		if v := groupOfSets(sets{set}).Judge(last.Add(timeout-time.Millisecond), time.Time{})[0]; !v.Awake {
			t.Fatalf("seed %d: used at %s, written down %s, and asleep before %s are over", seed, last, set.Annotations[api.LastActivityAnnotation], timeout)
		}
		if v := groupOfSets(sets{set}).Judge(last.Add(timeout+2*Throttle(timeout)+2*time.Second), time.Time{})[0]; v.Awake {
			t.Fatalf("seed %d: awake long after the last use at %s", seed, last)
		}
	}
}

// TestAlone: of a set that sleeps with its group, what it does not tell itself is no reason to wake it.
func TestAlone(t *testing.T) {
	shop, hour, used := build.InGroup("shop"), build.IdleTimeout("1h"), build.Active(2*time.Hour)
	sleep := func(phase api.Phase, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, options...))
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool // awake
	}{
		"no timeout, no group":  {[]build.Option{used, sleep(api.Asleep)}, true},
		"no timeout of its own": {[]build.Option{shop, used, sleep(api.Asleep)}, false},
		"about to sleep":        {[]build.Option{shop, used, sleep(api.Planned)}, false},
		"of unknown use":        {[]build.Option{shop, sleep(api.Stopping)}, false},
		"used since":            {[]build.Option{shop, build.Active(0), sleep(api.Asleep)}, true},
		"its hour has come":     {[]build.Option{shop, used, sleep(api.Asleep), build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")}, true},
		"not paused any more":   {[]build.Option{shop, used, sleep(api.Asleep, build.Because(ForPause))}, true},
		"paused":                {[]build.Option{shop, used, build.Paused(), sleep(api.Asleep, build.Because(ForPause))}, false},
		"a mistake":             {[]build.Option{shop, hour, build.DependsOn("/"), sleep(api.Asleep)}, true},
		"waking":                {[]build.Option{shop, used, sleep(api.Waking)}, true},
		"it runs, and its group has the timeout, if any": {[]build.Option{shop, used}, true},
		"a timeout of its own":                           {[]build.Option{shop, hour, used, sleep(api.Asleep)}, false},
		"its own, and it was used":                       {[]build.Option{shop, hour, build.Active(0)}, true},
	} {
		if v := MemberOf(build.Set("web", row.options...)).Alone(build.Now); v.Awake != row.want || v.Why == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestTimeoutOfAGroup(t *testing.T) {
	g := groupOfSets(sets{build.Set("a"), build.Set("b", build.IdleTimeout("10m")), build.Set("c", build.IdleTimeout("1h")), build.Set("d", build.IdleTimeout("x"))})
	if got := g.Timeout(); got != time.Hour {
		t.Error(got)
	}
	if got := (Group{}).Timeout(); got != 0 {
		t.Error(got)
	}
}

func TestOrder(t *testing.T) {
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
		"nothing":                   {nil, "", false},
		"by name":                   {sets{on("c"), on("a"), on("b")}, "a b c", false},
		"what others need is first": {sets{on("a", "c"), on("b", "a"), on("c")}, "c a b", false},
		"a diamond":                 {sets{on("a", "b", "c"), on("b", "d"), on("c", "d"), on("d")}, "d b c a", false},
		"a set that needs itself":   {sets{on("a", "a"), on("b")}, "b a", true},
		"two that need each other":  {sets{on("a", "b"), on("b", "a"), on("c")}, "c a b", true},
		"one behind a circle":       {sets{on("a", "b"), on("b", "c"), on("c", "b"), on("d")}, "d a b c", true},
		"one that is not there":     {sets{on("a", "x"), on("b")}, "a b", true},
		"a set alone":               {sets{build.Set("a", build.DependsOn("b"))}, "a", true},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		row := groups[name]
		t.Run(name, func(t *testing.T) {
			g := groupOfSets(row.sets)
			before := fmt.Sprint(names(g))
			sorted, err := g.Order()
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
				t.Errorf("the group itself is now %s", after)
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

// TestOrderInAnyOrder: what a list call answers first decides nothing.
func TestOrderInAnyOrder(t *testing.T) {
	all := sets{build.Set("db"), build.Set("queue", build.DependsOn("db")), build.Set("cache"), build.Set("web", build.DependsOn("queue", "cache")), build.Set("mail", build.DependsOn("queue"))}
	want, err := groupOfSets(all).Order()
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, err := groupOfSets(all).Order(); err != nil || !slices.Equal(names(got), names(want)) {
			t.Errorf("%v, %v; want %v", names(got), err, names(want))
		}
	}
}

package sift

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const retryAfter = 13 * time.Minute

// wakenBy says who has to look after a change of the set, at the time of the builders.
func wakenBy(t *testing.T, change string, set *appsv1.StatefulSet) string {
	t.Helper()
	l, err := Sift(changeOf(t, change, "StatefulSet", set), build.Now, retryAfter)
	if err != nil {
		t.Fatal(err)
	}
	return words(l.concerns)
}

func words(concerns []api.Function) string {
	var all []string
	for _, f := range concerns {
		all = append(all, string(f))
	}
	return strings.Join(all, " ")
}

// swept says whom a sweep at the time of the builders wakes, as SET: CONCERNS.
func swept(t *testing.T, objects ...metav1.Object) string {
	t.Helper()
	lists := build.Plurals()
	for _, o := range objects {
		plural := "statefulsets"
		if _, ok := o.(*appsv1.ControllerRevision); ok {
			plural = "controllerrevisions"
		}
		lists[plural] = append(lists[plural], o)
	}
	f := New(kube.NewClient(lists.Serve(t)), build.SleepSettings(), nil, slog.New(slog.DiscardHandler))
	found := &findings{tick: "1", looks: map[events.Ref]look{}, active: map[string]bool{}, given: map[string]bool{}}
	now := build.Now.Add(time.Minute) // not one in which paused owners are looked at
	if err := f.sweepSets(t.Context(), "", now, found); err != nil {
		t.Fatal(err)
	}
	if err := f.sweepJournals(t.Context(), "", now, found); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, ref := range found.order {
		all = append(all, ref.Name+": "+words(found.looks[ref].concerns))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// idleWeb is a set with a timeout of an hour that nobody has used for two.
func idleWeb(options ...build.Option) *appsv1.StatefulSet {
	return idleSetOf("web", options...)
}

func idleSetOf(name string, options ...build.Option) *appsv1.StatefulSet {
	return build.Set(name, append(opts(build.IdleTimeout("1h"), build.Active(2*time.Hour)), options...)...)
}

func sleepOf(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

// notKnown takes an annotation away.
func notKnown(key string) build.Option {
	return func(o metav1.Object) {
		annotations := o.GetAnnotations()
		delete(annotations, key)
		o.SetAnnotations(annotations)
	}
}

func TestWhoIsWokenByASetThatMaySleep(t *testing.T) {
	zero, used := build.Replicas(0), build.Active(0)
	rested, resting := build.Ended(api.Aborted, retryAfter), build.Ended(api.Aborted, time.Minute)
	retry := build.Annotation(api.RetryAnnotation, "")
	soon := build.IdleTimeout("soon")
	said := sleepOf(api.Refused, build.Told(api.RequestInvalid, idle.MemberOf(build.Set("web", soon)).Complaint()))
	two := build.Annotation(api.WakeReplicasAnnotation, "2")
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"nothing was active":                             {updated, nil, "idle-timeout"},
		"it was active":                                  {updated, opts(used), ""},
		"no clock puts it to sleep":                      {updated, opts(notKnown(api.IdleTimeoutAnnotation)), ""},
		"nobody knows when it was used":                  {updated, opts(notKnown(api.LastActivityAnnotation)), "idle-timeout"},
		"at zero, and nobody knows":                      {updated, opts(notKnown(api.LastActivityAnnotation), zero), ""},
		"it is paused":                                   {updated, opts(used, build.Paused()), "idle-timeout"},
		"it is paused, and at zero":                      {updated, opts(build.Paused(), zero), ""},
		"it is at zero by somebody else":                 {updated, opts(zero), ""},
		"at zero, to be awake until a time":              {updated, opts(zero, build.AwakeFor(time.Hour)), ""},
		"at zero, and it is said how many":               {updated, opts(zero, build.AwakeFor(time.Hour), two), "idle-timeout"},
		"at zero, nobody needs it":                       {updated, opts(zero, two), ""},
		"it is not opted in":                             {updated, opts(build.Label(api.ManagedLabel, "")), ""},
		"it is being deleted":                            {updated, opts(build.Deleting()), ""},
		"it is deleted":                                  {deleted, nil, ""},
		"a resize runs":                                  {updated, opts(build.Status(build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0"))), zero), "backup"},
		"a resize is given up":                           {updated, opts(build.Status(build.Operation(api.Reverting)), zero), "restore"},
		"a resize that nobody can read":                  {updated, opts(build.Annotation(api.StatusAnnotation, "{")), "detect-resize"},
		"a resize is asked for, too":                     {updated, opts(build.Resize("x=1Gi")), "detect-resize idle-timeout"},
		"its sleep failed a moment ago":                  {updated, opts(sleepOf(api.Failed, resting)), ""},
		"the same, and a retry":                          {updated, opts(sleepOf(api.Failed, resting), retry), "idle-timeout"},
		"its sleep failed a while ago":                   {updated, opts(sleepOf(api.Failed, rested)), "idle-timeout"},
		"its sleep has ended, it was used":               {updated, opts(sleepOf(api.Succeeded, build.Ended(api.Awake, 0)), used), ""},
		"a mistake":                                      {updated, opts(soon), "idle-timeout"},
		"a mistake that was told":                        {updated, opts(soon, said), ""},
		"a mistake on a set at zero":                     {updated, opts(soon, zero), "idle-timeout"},
		"a mistake that was corrected":                   {updated, opts(said), "idle-timeout"},
		"a sleep that nobody can read":                   {updated, opts(build.Annotation(api.SleepAnnotation, "{")), "idle-timeout"},
		"I3: the sleep is another set's":                 {updated, opts(sleepOf(api.Asleep), build.UID("uid-2"), used), ""},
		"kept warm at this hour":                         {updated, opts(build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")), ""},
		"I6: a resize that waits for the end of a sleep": {updated, opts(build.Resize("x=1Gi"), sleepOf(api.Asleep), zero), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wakenBy(t, row.change, idleWeb(row.options...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

func TestWhoIsWokenByASetThatSleeps(t *testing.T) {
	zero, used, abort, optOut := build.Replicas(0), build.Active(0), build.Annotation(api.AbortAnnotation, ""), build.Label(api.ManagedLabel, "")
	left, unseen := build.Counting(2, 2), build.Unseen()
	stopped := build.OwnerStops()
	hasPaused := sleepOf(api.Asleep, build.Because(idle.ForPause))
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"planned":                                   {updated, opts(sleepOf(api.Planned)), "pause-owner"},
		"planned, and used":                         {updated, opts(sleepOf(api.Planned), used), "idle-timeout"},
		"planned, and aborted":                      {updated, opts(sleepOf(api.Planned), abort), "idle-timeout"},
		"planned, and not opted in":                 {updated, opts(sleepOf(api.Planned), optOut), "idle-timeout"},
		"planned, and being deleted":                {updated, opts(sleepOf(api.Planned), build.Deleting()), ""},
		"stopping: it is to be scaled":              {updated, opts(sleepOf(api.Stopping)), "idle-timeout"},
		"stopping: pods end":                        {updated, opts(sleepOf(api.Stopping), zero, left), ""},
		"stopping: the controller has not seen it":  {updated, opts(sleepOf(api.Stopping), zero, unseen), ""},
		"stopping: all pods have ended":             {updated, opts(sleepOf(api.Stopping), zero), "idle-timeout"},
		"stopping: used":                            {updated, opts(sleepOf(api.Stopping), zero, left, used), "idle-timeout"},
		"stopping: aborted":                         {updated, opts(sleepOf(api.Stopping), zero, left, abort), "idle-timeout"},
		"stopping: not opted in":                    {updated, opts(sleepOf(api.Stopping), zero, left, optOut), "idle-timeout"},
		"I4: stopping: somebody puts replicas back": {updated, opts(sleepOf(api.Stopping, build.ScaledDown(0)), left), "idle-timeout"},
		"I6: stopping: the tick, for its deadline":  {added, opts(sleepOf(api.Stopping), zero, left), "idle-timeout"},
		"asleep":                                     {updated, opts(sleepOf(api.Asleep), zero), ""},
		"asleep: also for a new watch":               {added, opts(sleepOf(api.Asleep), zero), ""},
		"asleep: used before":                        {updated, opts(sleepOf(api.Asleep), zero, build.Active(61*time.Second)), ""},
		"asleep: used":                               {updated, opts(sleepOf(api.Asleep), zero, build.Active(time.Minute)), "idle-timeout"},
		"asleep: aborted":                            {updated, opts(sleepOf(api.Asleep), zero, abort), "idle-timeout"},
		"asleep: not opted in":                       {updated, opts(sleepOf(api.Asleep), zero, optOut), "idle-timeout"},
		"asleep: the timeout was taken away":         {updated, opts(sleepOf(api.Asleep), zero, notKnown(api.IdleTimeoutAnnotation)), "idle-timeout"},
		"asleep: its hour has come":                  {updated, opts(sleepOf(api.Asleep), zero, build.Annotation(api.KeepWarmAnnotation, "Daily 00:00-24:00")), "idle-timeout"},
		"I4: asleep: somebody starts it":             {updated, opts(sleepOf(api.Asleep)), "idle-timeout"},
		"asleep: a mistake":                          {updated, opts(sleepOf(api.Asleep), zero, build.IdleTimeout("x")), "idle-timeout"},
		"paused: used":                               {updated, opts(hasPaused, build.Paused(), zero, used), ""},
		"paused: not any more":                       {updated, opts(hasPaused, zero), "idle-timeout"},
		"waking: pods start":                         {updated, opts(sleepOf(api.Waking), build.Counting(1, 0)), ""},
		"waking: no pod of an owned set is ready":    {updated, opts(sleepOf(api.Waking), build.Counting(1, 0), build.Owned("Database", "main")), "pause-owner"},
		"waking: not seen by the controller yet":     {updated, opts(sleepOf(api.Waking), build.Unseen(), build.Counting(1, 0), build.Owned("Database", "main")), ""},
		"waking: ready":                              {updated, opts(sleepOf(api.Waking)), "idle-timeout"},
		"waking: it waits for another one":           {updated, opts(sleepOf(api.Waking), zero), ""},
		"I6: waking: the tick, for its deadline":     {added, opts(sleepOf(api.Waking), build.Counting(1, 0)), "idle-timeout"},
		"I6: waking: its operator, told at the tick": {added, opts(sleepOf(api.Waking, stopped), zero), "pause-owner idle-timeout"},
		"waking by its operator: pods start":         {updated, opts(sleepOf(api.Waking, stopped), build.Counting(1, 0)), ""},
		"waking by its operator: ready":              {updated, opts(sleepOf(api.Waking, stopped)), "idle-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wakenBy(t, row.change, idleWeb(row.options...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestAMemberThatIsWokenWithItsGroup: idle-timeout announces only what it does to the set that its event names, so it is the
// update of the other set that tells pause-owner to have its operator start it.
func TestAMemberThatIsWokenWithItsGroup(t *testing.T) {
	set := idleWeb(build.InGroup("shop"), build.Replicas(0), sleepOf(api.Waking, build.OwnerStops()))
	if got := wakenBy(t, updated, set); !strings.Contains(got, "pause-owner") {
		t.Errorf("wakes %q", got)
	}
}

// TestAMemberWithATimeoutOfItsGroup: what the set alone does not tell is no reason for its waking.
func TestAMemberWithATimeoutOfItsGroup(t *testing.T) {
	for want, options := range map[string][]build.Option{
		"pause-owner": opts(sleepOf(api.Planned)),
		"":            opts(sleepOf(api.Asleep), build.Replicas(0)),
	} {
		set := build.Set("web", append(opts(build.InGroup("shop"), build.Active(2*time.Hour)), options...)...)
		if got := wakenBy(t, updated, set); got != want {
			t.Errorf("wakes %q, want %q", got, want)
		}
	}
}

// TestASetThatLeavesTheWatch: without the label it is deleted as far as the watch can see, and the event has it as it was.
func TestASetThatLeavesTheWatch(t *testing.T) {
	for _, phase := range []api.Phase{api.Planned, api.Stopping, api.Asleep, api.Waking} {
		got := wakenBy(t, deleted, idleWeb(sleepOf(phase), build.Replicas(0), build.Counting(1, 1)))
		if !strings.Contains(got, "idle-timeout") {
			t.Errorf("%s: wakes %q; nobody else will look until the tick", phase, got)
		}
	}
}

// TestI6SweepFindsEveryUnfinishedSleep, and nothing else.
// Invariants: I6.
func TestI6SweepFindsEveryUnfinishedSleep(t *testing.T) {
	zero, shop := build.Replicas(0), build.InGroup("shop")
	type list = []metav1.Object
	asked := sleepOf(api.Asleep, build.Because(idle.ForAsk))
	said := func(set *appsv1.StatefulSet) build.Option {
		return sleepOf(api.Refused, build.Told(api.RequestInvalid, idle.MemberOf(set).Complaint()), build.Ended(api.RequestInvalid, time.Hour))
	}
	for name, row := range map[string]struct {
		in   list
		want string
	}{
		"a set that nobody has used":             {list{idleWeb()}, "web: idle-timeout"},
		"one that is used":                       {list{idleWeb(build.Active(0))}, ""},
		"one that is not opted in":               {list{idleWeb(build.Label(api.ManagedLabel, ""))}, ""},
		"I7: one that sleeps":                    {list{idleWeb(zero, sleepOf(api.Asleep))}, ""},
		"I7: for a year":                         {list{idleWeb(zero, sleepOf(api.Asleep, build.Slept(8760*time.Hour)), build.Active(8765*time.Hour))}, ""},
		"I7: one that is paused and sleeps":      {list{idleWeb(zero, build.Paused(), sleepOf(api.Asleep, build.Because(idle.ForPause)))}, ""},
		"I7: one that is at zero":                {list{idleWeb(zero)}, ""},
		"I7: one that was refused a moment ago":  {list{idleWeb(sleepOf(api.Refused, build.Ended(api.OwnerNotPausable, 0)))}, ""},
		"planned":                                {list{idleWeb(sleepOf(api.Planned))}, "web: pause-owner"},
		"stopping":                               {list{idleWeb(zero, build.Counting(1, 1), sleepOf(api.Stopping))}, "web: idle-timeout"},
		"asleep, and somebody has started it":    {list{idleWeb(sleepOf(api.Asleep))}, "web: idle-timeout"},
		"asleep, and somebody has used it":       {list{idleWeb(zero, build.Active(0), sleepOf(api.Asleep))}, "web: idle-timeout"},
		"asleep, and its hour has come":          {list{idleWeb(zero, build.Annotation(api.KeepWarmAnnotation, "Sun 12:00-13:00"), sleepOf(api.Asleep))}, "web: idle-timeout"},
		"waking":                                 {list{idleWeb(build.Counting(1, 0), sleepOf(api.Waking))}, "web: idle-timeout"},
		"waking, by its operator":                {list{idleWeb(zero, sleepOf(api.Waking, build.OwnerStops()))}, "web: pause-owner idle-timeout"},
		"a sleep that nobody can read":           {list{idleWeb(build.Annotation(api.SleepAnnotation, "{"))}, "web: idle-timeout"},
		"a resize, and an old sleep":             {list{idleWeb(sleepOf(api.Succeeded), build.Status(build.Operation(api.Planned)))}, "web: pause-owner"},
		"a group that nobody uses":               {list{idleWeb(shop), idleSetOf("db", shop)}, "db: idle-timeout, web: idle-timeout"},
		"a group of which one is used":           {list{idleWeb(shop), idleSetOf("db", shop, build.Active(0))}, ""},
		"a group of which one has a timeout":     {list{idleWeb(shop), idleSetOf("db", shop, notKnown(api.IdleTimeoutAnnotation))}, "db: idle-timeout, web: idle-timeout"},
		"I7: a group that sleeps":                {list{idleWeb(shop, zero, sleepOf(api.Asleep)), idleSetOf("db", shop, zero, sleepOf(api.Asleep))}, ""},
		"I7: with one timeout for both":          {list{idleWeb(shop, zero, sleepOf(api.Asleep)), idleSetOf("db", shop, zero, sleepOf(api.Asleep), notKnown(api.IdleTimeoutAnnotation))}, ""},
		"a group that sleeps, one is used":       {list{idleWeb(shop, zero, sleepOf(api.Asleep)), idleSetOf("db", shop, zero, sleepOf(api.Asleep), build.Active(0))}, "db: idle-timeout, web: idle-timeout"},
		"I7: a group that sleeps, one is paused": {list{idleWeb(shop, zero, sleepOf(api.Asleep)), idleSetOf("db", shop, zero, build.Paused(), build.Active(0), sleepOf(api.Asleep, build.Because(idle.ForPause)))}, ""},
		"a group on its way: the others go, too": {list{idleWeb(shop, zero, asked), idleSetOf("db", shop, build.Active(90*time.Second))}, "db: idle-timeout"},
		"two groups of one name":                 {list{idleWeb(shop), elsewhere(idleSetOf("db", shop, build.Active(0)))}, "web: idle-timeout"},
		"a group of the name of a set":           {list{idleWeb(), idleSetOf("db", build.InGroup("web"), build.Active(0))}, "web: idle-timeout"},
		"I7: a mistake that was told":            {list{idleWeb(build.IdleTimeout("x"), said(idleWeb(build.IdleTimeout("x"))))}, ""},
		"a member whose last use nobody knows":   {list{idleWeb(shop, build.Active(0)), build.Set("db", shop)}, "db: idle-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := swept(t, row.in...); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

func elsewhere(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set.Namespace = "payroll"
	return set
}

// TestI7AGroupWithoutAnOrderIsToldOnce: idle-timeout has said so on each that depends on another, and it stays awake.
// Invariants: I7.
func TestI7AGroupWithoutAnOrderIsToldOnce(t *testing.T) {
	shop := build.InGroup("shop")
	const circle = "drydock.dev/depends-on of StatefulSet shop/db leads in a circle; the set stays awake until that is corrected"
	said := sleepOf(api.Refused, build.Told(api.RequestInvalid, circle))
	if got := swept(t, idleWeb(shop, build.DependsOn("db"), said), idleSetOf("db", shop, build.DependsOn("web"), said), idleSetOf("queue", shop)); got != "" {
		t.Errorf("wakes %q at every tick", got)
	}
}

// TestI5RecordsOfASleepLeadToWhoEndsIt: the set lost its label or its document, or is gone.
// Invariants: I5.
func TestI5RecordsOfASleepLeadToWhoEndsIt(t *testing.T) {
	sleep := build.Sleep(api.Asleep)
	record := resources.MakeSleepRecord(build.Set("web"), sleep)
	paused := resources.MakeOwnerRecord(build.Set("web"), sleep, api.PausedOwner{Version: api.PauseVersion, Resource: "redis", Name: "main", UID: types.UID("u")})
	lost := idleWeb(build.Replicas(0), sleepOf(api.Asleep), build.Label(api.ManagedLabel, ""))
	for name, row := range map[string]struct {
		in   []metav1.Object
		want []string
	}{
		"the set is gone":                  {[]metav1.Object{record, paused}, []string{"idle-timeout", "pause-owner"}},
		"the set lost its label":           {[]metav1.Object{lost, record}, []string{"idle-timeout"}},
		"it lost its label, with an owner": {[]metav1.Object{lost, paused}, []string{"idle-timeout", "pause-owner"}},
		"the sleep has ended":              {[]metav1.Object{idleWeb(sleepOf(api.Succeeded), build.Active(0)), record, paused}, []string{"idle-timeout", "pause-owner"}},
		"the set has its replicas back":    {[]metav1.Object{idleWeb(build.Counting(1, 0), sleepOf(api.Waking)), record, paused}, []string{"idle-timeout", "pause-owner"}},
		"I7: the set sleeps, all is well":  {[]metav1.Object{idleWeb(build.Replicas(0), sleepOf(api.Asleep)), record, paused}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := swept(t, row.in...)
			for _, function := range row.want {
				if !strings.Contains(got, function) {
					t.Errorf("wakes %q, want %v", got, row.want)
				}
			}
			if len(row.want) == 0 && got != "" {
				t.Errorf("wakes %q", got)
			}
		})
	}
}

// TestAMemberThatFellAsleepTellsItsGroup: the one that it depends on may sleep next, and need not wait for the tick.
func TestAMemberThatFellAsleepTellsItsGroup(t *testing.T) {
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"just now":            {updated, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.Slept(0))), "idle-timeout"},
		"a while ago":         {updated, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.Slept(time.Minute))), ""},
		"at the tick":         {added, opts(build.InGroup("shop"), sleepOf(api.Asleep, build.Slept(0))), ""},
		"one without a group": {updated, opts(sleepOf(api.Asleep, build.Slept(0))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wakenBy(t, row.change, idleWeb(append(row.options, build.Replicas(0))...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

package members

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

const (
	retry   = 10 * time.Minute
	deletes = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// standing returns web with so many replicas. All its pods run.
func standing(replicas int32, options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "1Gi", "fixed"), build.Replicas(replicas)}, options...)...)
}

func sleeps(phase api.Phase, options ...func(*api.Sleep)) build.Option {
	return build.WithSleep(build.Sleep(phase, options...))
}

func withStop(options ...func(*api.Stop)) build.Option { return build.WithStop(build.Stop(options...)) }

// The parts of a situation.
var (
	paused    = build.StoppedByScaler(build.ID)
	again     = func(s *api.Stop) { s.Again = true }
	ofAnother = func(s *api.Stop) { s.Operation = "0123456789ab" }
	former    = build.FormerWhenScaled(deletes)
	operator  = build.ControlledBy("Database", "main")
	aborted   = build.Annotation(api.AbortAnnotation, "")
	optedOut  = build.Label(api.ManagedLabel, "")
	garbage   = build.Annotation(api.SleepAnnotation, "{")
	scaler    = scaled(api.Succeeded, 3, "")
	pausing   = scaled(api.Succeeded, 0, `,"paused":true`)
	ended     = build.SleepEnded(api.Awake, time.Minute)
	wokenUp   = func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now) }
	others    = func(s *api.Sleep) { s.Starts = 1 }
	waits     = build.Step(api.AwaitsDependency)
	forOwner  = build.Step(api.StartedForOwner)
	startedBy = build.StartedFor(time.Second)
)

// refusedAgo is a Stop whose count the API server rejected so long ago.
func refusedAgo(long time.Duration) func(*api.Stop) {
	return func(s *api.Stop) { s.Refused, s.RefusedAt = "a quota", operation.Moment(build.Now.Add(-long)) }
}

// withPods gives the status of a set with so many pods.
func withPods(pods int32) build.Option { return build.ReplicaCounts(pods, pods) }

// TestNextStopStep is the table of a stop. A row about a step that is not taken has a twin in which it is.
// Invariants: I1.
func TestNextStopStep(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want StopStep
	}{
		"a set without a sleep":                    {standing(3), NoStep},
		"a set without a sleep, at zero":           {standing(0), NoStep},
		"a sleep that has not been begun":          {standing(3, sleeps(api.Planned)), NoStep},
		"a sleep begins":                           {standing(3, sleeps(api.Stopping)), StopPods},
		"a sleep begins at zero":                   {standing(0, sleeps(api.Stopping)), NoStep},
		"a sleep that has not been begun, at zero": {standing(0, sleeps(api.Planned)), NoStep},
		"a sleep begins, and its operator stops the pods": {
			standing(3, sleeps(api.Stopping, build.OwnerStops())), NoStep,
		},
		"a sleep begins, and a user aborts it":         {standing(3, sleeps(api.Stopping), aborted), NoStep},
		"a sleep begins, and the set has opted out":    {standing(3, sleeps(api.Stopping), optedOut), NoStep},
		"a sleep begins, and the set is being deleted": {standing(3, sleeps(api.Stopping), build.Deleting()), NoStep},
		"a sleep begins after one whose Stop has not ended": {
			standing(3, sleeps(api.Stopping), withStop(ofAnother, startedBy)), StopPods,
		},
		"a sleep begins during the pause of a deleted Scaler": {
			standing(3, sleeps(api.Stopping), withStop(paused)), StopPods,
		},
		"a sleep begins, and its Stop exists": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(time.Hour))), NoStep,
		},
		"the API server has rejected the stop": {
			standing(3, sleeps(api.Stopping), withStop(build.NotStopped(), build.RefusedBy("a quota"))), NoStep,
		},
		"the sleep cannot be read, with pods":                  {standing(3, garbage), NoStep},
		"the sleep cannot be read, at zero":                    {standing(0, garbage, withStop()), NoStep},
		"the sleep is lost, at zero":                           {standing(0, withStop()), NoStep}, // idle-timeout writes that it wakes up
		"the sleep is lost, and the set has opted out":         {standing(0, withStop(), optedOut), StartPods},
		"another client has scaled a sleeping set up":          {standing(3, sleeps(api.Asleep)), NoStep},
		"another client has scaled a stopped, sleeping set up": {standing(3, sleeps(api.Asleep), withStop()), NoStep},

		"an operator is late": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(59*time.Second)), operator), StopPods,
		},
		"an operator is late, when the pods were gone": {
			standing(3, sleeps(api.Asleep), withStop(build.StoppedFor(59*time.Second)), operator), StopPods,
		},
		"an operator is late for a waking set that waits": {
			standing(3, sleeps(api.Waking, waits), withStop(build.StoppedFor(59*time.Second)), operator), StopPods,
		},
		"an operator scales up after a minute": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(time.Minute)), operator), NoStep,
		},
		"an operator is late, and the API server rejects the second stop": {standing(3, sleeps(api.Stopping),
			withStop(build.StoppedFor(time.Second), build.RefusedBy("a quota")), operator), NoStep},
		"an operator is late a second time": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(time.Second), again), operator), NoStep,
		},
		"a set without an operator is scaled up at once": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(time.Second))), NoStep,
		},
		"a set with a Scaler is scaled up at once": {
			standing(3, sleeps(api.Stopping), withStop(build.StoppedFor(time.Second)), operator, scaler), NoStep,
		},
		"an operator is late, and the Stop is that of its Scaler": {
			standing(3, sleeps(api.Asleep), withStop(paused, build.StoppedFor(time.Second)), operator), NoStep,
		},
		"an operator scales up when the pods were asked back": {
			standing(3, sleeps(api.Asleep), withStop(build.StoppedFor(time.Second), startedBy), operator), NoStep,
		},

		"the pods end":   {standing(0, sleeps(api.Stopping), withStop(), withPods(2)), NoStep},
		"the set sleeps": {standing(0, sleeps(api.Asleep), withStop()), NoStep},
		"the set sleeps, and its Stop is that of a pause": {standing(0, sleeps(api.Asleep), withStop(paused)), NoStep},
		"a waking set waits":                              {standing(0, sleeps(api.Waking, wokenUp, waits), withStop()), NoStep},
		"an asleep set without a Stop":                    {standing(0, sleeps(api.Asleep)), NoStep},

		"a set wakes": {standing(0, sleeps(api.Waking, wokenUp), withStop()), StartPods},
		"a set wakes, and is being deleted": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(), build.Deleting()), NoStep,
		},
		"a set wakes, and has opted out": {standing(0, sleeps(api.Waking, wokenUp), withStop(), optedOut), StartPods},
		"a set wakes, while its last pods end": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(), withPods(2)), StartPods,
		},
		"a set wakes, and another sleep has stopped it": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(ofAnother)), NoStep,
		},
		"a set wakes without a Stop": {standing(0, sleeps(api.Waking, wokenUp)), NoStep},
		"a set wakes, and its pods were asked back": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(startedBy)), NoStep,
		},
		"a set wakes, and another client started it": {standing(2, sleeps(api.Waking, wokenUp), withStop()), NoteStart},
		"a set wakes because another client started it, which is at zero again": {standing(0, sleeps(api.Waking, wokenUp, others), withStop()),
			NoteStart},
		"a set sleeps after others have started it in its earlier sleep": {standing(0, sleeps(api.Asleep, others), withStop()), NoStep},
		"a set wakes after a rejected stop, and another client scales it to zero": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(build.NotStopped(), refusedAgo(retry))), NoStep,
		},
		"the sleep has ended, at zero":  {standing(0, sleeps(api.Succeeded, ended), withStop()), StartPods},
		"the sleep has failed, at zero": {standing(0, sleeps(api.Failed, ended), withStop()), StartPods},
		"a user scales to zero after the wake-up": {
			standing(0, sleeps(api.Succeeded, ended), withStop(startedBy)), EndStop,
		},
		"a refused start, within the time until a retry": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(refusedAgo(retry-time.Second))), NoStep,
		},
		"a refused start, after that time": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(refusedAgo(retry))), StartPods,
		},
		"a refused start, and the set has opted out": {
			standing(0, withStop(refusedAgo(retry-time.Second)), optedOut), NoStep,
		},
		"a refused start, later, and the set has opted out": {
			standing(0, withStop(refusedAgo(retry)), optedOut), StartPods,
		},

		"a wake-up of a set at zero": {standing(0, sleeps(api.Waking)), StartPods},
		"a wake-up of a set at zero was carried out": {
			standing(0, sleeps(api.Waking), withStop(build.NotStopped(), startedBy)), NoStep,
		},
		"a wake-up of a set at zero was rejected just now": {
			standing(0, sleeps(api.Waking), withStop(build.NotStopped(), refusedAgo(time.Second))), NoStep,
		},
		"a wake-up of a set at zero was rejected, and its time has come": {
			standing(0, sleeps(api.Waking), withStop(build.NotStopped(), refusedAgo(retry))), StartPods,
		},
		"a wake-up of a set at zero, for its operator":        {standing(0, sleeps(api.Waking, build.OwnerStops())), NoStep},
		"a wake-up of a set that a paused Scaler has stopped": {standing(0, sleeps(api.Waking), withStop(paused)), StartPods},
		"an operator has to start its set":                    {standing(0, sleeps(api.Waking, wokenUp, build.OwnerStops())), NoStep},
		"Drydock starts a set for its operator": {
			standing(0, sleeps(api.Waking, wokenUp, forOwner, build.OwnerStops())), StartPods,
		},
		"Drydock has started a set for its operator": {standing(0, sleeps(api.Waking, wokenUp, forOwner, build.OwnerStops()),
			withStop(build.NotStopped(), startedBy)), NoStep},

		"a paused Scaler holds the set":                  {standing(0, withStop(paused)), NoStep},
		"a paused Scaler holds a set that has opted out": {standing(0, withStop(paused), optedOut), NoStep},
		"a paused Scaler holds the set after its sleep": {
			standing(0, sleeps(api.Succeeded, ended), withStop(paused)), NoStep,
		},
		"a paused Scaler holds the set, which is woken": {
			standing(0, sleeps(api.Waking, wokenUp), withStop(paused)), NoStep,
		},
		"another client has scaled up a set that a Scaler pauses": {standing(2, withStop(paused), pausing), NoStep},
		"the Scaler has taken over the count of another client":   {standing(2, withStop(paused), scaler), EndStop},
		"another client has scaled up a set of a pause":           {standing(2, withStop(paused)), EndStop},
		"the Scaler was paused, and wants zero pods then":         {standing(0, withStop(paused, startedBy)), EndStop},

		"a resize has created a stopped set again":  {recreated(0, sleepOfFormer, withStop()), RenewStop},
		"a resize has created a running set again":  {recreated(3, withStop(startedBy)), RenewStop},
		"a set with the same name is created again": {standing(0, withStop(), build.UID("uid-new")), NoStep},
		"a set with the same name is created again, and runs": {
			standing(3, withStop(startedBy), build.UID("uid-new")), NoStep,
		},

		"no user writes another policy during a stop": {standing(0, sleeps(api.Asleep), withStop(former)), NoStep},
		"a user writes another policy, and nothing is kept": {
			standing(0, sleeps(api.Asleep), withStop(), build.WhenScaled(deletes)), NoStep,
		},

		"the pods run again": {standing(3, sleeps(api.Succeeded, ended), withStop(startedBy)), EndStop},
		"the pods were asked back, and the sleep goes on": {
			standing(3, sleeps(api.Waking, wokenUp), withStop(startedBy)), NoStep,
		},
		"the pods were asked back, and another sleep goes on": {
			standing(3, sleeps(api.Waking, wokenUp), withStop(ofAnother, startedBy)), NoStep,
		},
		"the pods were asked back, and another sleep has ended": {
			standing(3, sleeps(api.Succeeded, wokenUp), withStop(ofAnother, startedBy)), EndStop,
		},
		"the pods were asked back, and the sleep is lost": {standing(3, withStop(startedBy)), EndStop},
		"another client started the set, and the sleep is over": {
			standing(3, sleeps(api.Succeeded, ended), withStop()), EndStop,
		},
		"the start was not needed, and the sleep is over": {
			standing(3, sleeps(api.Failed, ended), withStop(build.NotStopped(), build.RefusedBy("a quota"))), EndStop,
		},
		"a policy is restored": {standing(3, withStop(former, startedBy)), EndStop},
		"a policy is restored when more pods than wanted end": {
			standing(1, withStop(former, startedBy), withPods(3)), NoStep,
		},
		"no policy is restored, and more pods than wanted end": {
			standing(1, withStop(startedBy), withPods(3)), EndStop,
		},
		"a policy is restored at zero":           {standing(0, withStop(former, startedBy)), EndStop},
		"a policy is restored when all pods end": {standing(0, withStop(former, startedBy), withPods(3)), NoStep},
		"a policy is restored at a zero that nobody has counted": {
			standing(0, withStop(former, startedBy), build.NotObserved()), NoStep,
		},
		"no policy is restored, and all pods end": {standing(0, withStop(startedBy), withPods(3)), EndStop},
	} {
		if got := NextStopStep(row.set, build.Now, retry); got != row.want {
			t.Errorf("%s: step %d, want %d", name, got, row.want)
		}
	}
}

// TestLostSleep: idle-timeout wakes a set that is stopped for a sleep without a record.
func TestLostSleep(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		lost bool
	}{
		"no record": {standing(0, withStop()), true},
		"the record of a later sleep that has ended": {standing(0, sleeps(api.Succeeded, ended), withStop(ofAnother)), true},
		"the set has its record":                     {standing(0, sleeps(api.Asleep), withStop()), false},
		"the sleep has ended":                        {standing(0, sleeps(api.Succeeded, ended), withStop()), false},
		"a later sleep is active":                    {standing(0, sleeps(api.Waking, wokenUp), withStop(ofAnother)), false},
		"the record cannot be read":                  {standing(0, garbage, withStop()), false},
		"another client has started the set":         {standing(1, withStop()), false},
		"its pods were asked back":                   {standing(0, withStop(startedBy)), false},
		"its Scaler is paused":                       {standing(0, withStop(paused)), false},
		"it has opted out":                           {standing(0, withStop(), optedOut), false},
	} {
		if got := LostSleep(row.set); got != row.lost {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestOrdersStart: the sleep of a set that waits for another one orders nothing yet.
func TestOrdersStart(t *testing.T) {
	for orders, sleep := range map[bool]*api.Sleep{true: build.Sleep(api.Waking), false: build.Sleep(api.Waking, waits)} {
		if got := OrdersStart(sleep, nil); got != orders {
			t.Errorf("step %q: %t", sleep.Step, got)
		}
	}
}

// recreated returns the set that a resize has created again under another UID.
func recreated(replicas int32, options ...build.Option) *appsv1.StatefulSet {
	resize := build.Operation(api.Succeeded, build.ReplacesSet, build.DerivedID)
	resize.Set.UID = "uid-new"
	return standing(replicas, append(options, build.Status(resize), build.UID("uid-new"))...)
}

var sleepOfFormer = sleeps(api.Succeeded, ended)

// TestUnreadableStopStopsAndStartsNothing: the pods of a set whose Stop cannot be read come back with its record.
func TestUnreadableStopStopsAndStartsNothing(t *testing.T) {
	for name, replicas := range map[string]int32{"at zero": 0, "with pods": 3} {
		if step := NextStopStep(standing(replicas, build.Annotation(api.StopAnnotation, "{")), build.Now, retry); step != NoStep {
			t.Errorf("%s: step %d", name, step)
		}
	}
}

// TestHoldingSleep: the sleep holds the set from the decision to stop until the set may start.
func TestHoldingSleep(t *testing.T) {
	for name, row := range map[string]struct {
		options []build.Option
		holds   bool
	}{
		"no sleep":                           {nil, false},
		"it is planned":                      {[]build.Option{sleeps(api.Planned)}, false},
		"it is refused":                      {[]build.Option{sleeps(api.Refused)}, false},
		"it stops":                           {[]build.Option{sleeps(api.Stopping)}, true},
		"it is asleep":                       {[]build.Option{sleeps(api.Asleep)}, true},
		"it wakes":                           {[]build.Option{sleeps(api.Waking, wokenUp)}, false},
		"it wakes when its dependency is up": {[]build.Option{sleeps(api.Waking, wokenUp, waits)}, true},
		"it is planned, with a step of a wake-up": {[]build.Option{sleeps(api.Planned, waits)}, false},
		"it has ended":                      {[]build.Option{sleeps(api.Succeeded, ended)}, false},
		"its operator stops the pods":       {[]build.Option{sleeps(api.Stopping, build.OwnerStops())}, false},
		"its operator has stopped the pods": {[]build.Option{sleeps(api.Asleep, build.OwnerStops())}, false},
		"it cannot be read":                 {[]build.Option{garbage}, false},
		"it belongs to a former set":        {[]build.Option{sleeps(api.Asleep), build.UID("uid-new")}, false},
	} {
		if held := HoldingSleep(standing(0, row.options...)) != nil; held != row.holds {
			t.Errorf("%s: it holds: %t", name, held)
		}
	}
}

// TestRefusedStartOfASetThatDrydockHasNotStoppedIsTriedAgain: the message of idle-timeout promises the next try.
func TestRefusedStartOfASetThatDrydockHasNotStoppedIsTriedAgain(t *testing.T) {
	refused := withStop(build.NotStopped(), refusedAgo(100*retry))
	if step := NextStopStep(standing(0, sleeps(api.Waking), refused), build.Now, retry); step != StartPods {
		t.Errorf("a wake-up of a set at zero was rejected some time ago: step %d, want %d", step, StartPods)
	}
	owned := sleeps(api.Waking, wokenUp, forOwner, build.OwnerStops())
	if step := NextStopStep(standing(0, owned, refused), build.Now, retry); step != StartPods {
		t.Errorf("Drydock's start for an operator was rejected some time ago: step %d, want %d", step, StartPods)
	}
}

// TestPolicyIsNotRestoredWhileAnOperatorStopsTheSet: whenScaled Delete takes the claims of the pods that the operator stops.
func TestPolicyIsNotRestoredWhileAnOperatorStopsTheSet(t *testing.T) {
	for _, phase := range []api.Phase{api.Planned, api.Stopping} {
		set := standing(3, sleeps(phase, build.OwnerStops()), withStop(former, ofAnother, startedBy), operator)
		if step := NextStopStep(set, build.Now, retry); step == EndStop {
			t.Errorf("%s: step %d", phase, step)
		}
	}
}

// TestPolicyToRestore: a user who writes the retention policy during a stop decides, also with the value that Drydock has written.
func TestPolicyToRestore(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		options []build.Option
		want    appsv1.PersistentVolumeClaimRetentionPolicyType
	}{
		"Drydock has set it aside":                        {[]build.Option{withStop(former)}, deletes},
		"it was Retain before":                            {[]build.Option{withStop()}, ""},
		"a user has written it again":                     {[]build.Option{withStop(former), build.WhenScaled(deletes)}, ""},
		"a user has written it again, and then Retain":    {[]build.Option{withStop(former), build.RetainedBy("kubectl-edit")}, ""},
		"a user has applied a manifest with Retain":       {[]build.Option{withStop(former), build.RetainedBy("argocd", api.FieldManager)}, ""},
		"a client has removed the managers of all fields": {[]build.Option{withStop(former), build.RetainedBy()}, ""},
		"the set has no stop":                             {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := PolicyToRestore(standing(0, row.options...)); got != row.want {
				t.Errorf("it is %q, not %q", got, row.want)
			}
		})
	}
}

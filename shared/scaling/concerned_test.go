package scaling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/scaling"
	"drydock.dev/test/kit/build"
)

func scaler(name string, age time.Duration, options ...build.Option) *v1alpha1.Scaler {
	s := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 4}}
	s.Spec.Replicas = ptr.To[int32](3)
	s.Status = v1alpha1.ScalerStatus{ObservedGeneration: 4, Stage: v1alpha1.StageIdle, Desired: ptr.To[int32](3)}
	return build.With(s, append([]build.Option{build.Age(age)}, options...)...)
}

func edit(change func(*v1alpha1.Scaler)) build.Option { return build.Edit(change) }

func record(phase api.Phase) *api.Scale {
	return &api.Scale{Header: api.Header{Phase: phase, Kind: api.KindScale}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}}
}

// concerns fails the test unless the change concerns only scale, or no function if want is false.
func concerns(t *testing.T, situation string, got []api.Function, want bool) {
	t.Helper()
	var expected []api.Function
	if want {
		expected = []api.Function{api.ScaleFunction}
	}
	if !slices.Equal(got, expected) {
		t.Errorf("%s: it concerns %v", situation, got)
	}
}

func TestChangeOfASet(t *testing.T) {
	atZero := build.Set("web", build.Replicas(0))
	recorded := func(phase api.Phase) operation.Records { return operation.Records{Scale: record(phase)} }
	for name, row := range map[string]struct {
		change operation.Change
		want   bool
	}{
		"no Scaler":                   {operation.Change{}, false},
		"no Scaler, swept":            {operation.Change{Swept: true}, false},
		"a Scaler, no scaling":        {operation.Change{Records: recorded(api.Succeeded)}, true},
		"a Scaler, no scaling, swept": {operation.Change{Swept: true, Set: atZero, Records: recorded(api.Succeeded)}, false},
		"a failed scaling":            {operation.Change{Records: recorded(api.Failed)}, true},
		"a failed scaling, swept":     {operation.Change{Swept: true, Set: atZero, Records: recorded(api.Failed)}, false},
		"another count, swept": {operation.Change{Swept: true, Set: build.Set("web", build.Replicas(2)),
			Records: recorded(api.Succeeded)}, true},
		"another count after a failure, swept": {operation.Change{Swept: true, Set: build.Set("web", build.Replicas(2)),
			Records: recorded(api.Failed)}, false},
		"the set is being deleted, swept": {operation.Change{Swept: true, Set: build.Set("web", build.Replicas(0), build.Deleting()),
			Records: recorded(api.Succeeded)}, true},
		"an active scaling":               {operation.Change{Records: recorded(api.Scaling)}, true},
		"an active scaling, swept":        {operation.Change{Swept: true, Records: recorded(api.Scaling)}, true},
		"an unreadable record, swept":     {operation.Change{Swept: true, Records: operation.Records{ScaleErr: errUnreadable{}}}, true},
		"a deleted set that had a Scaler": {operation.Change{Gone: true, Records: recorded(api.Succeeded)}, true},
	} {
		if row.change.Set == nil {
			row.change.Set = atZero
		}
		concerns(t, name, scaling.Concerned(row.change), row.want)
	}
}

// TestStopConcernsScale: each step of a stop is found by the change of the set, and by the sweep.
func TestStopConcernsScale(t *testing.T) {
	const retry = 10 * time.Minute
	sleeps := func(phase api.Phase) build.Option { return build.WithSleep(build.Sleep(phase)) }
	stop := func(options ...func(*api.Stop)) build.Option { return build.WithStop(build.Stop(options...)) }
	refused := func(s *api.Stop) { s.Refused, s.RefusedAt = "a quota", operation.Moment(build.Now.Add(-retry)) }
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"the set falls asleep":                 {[]build.Option{build.Replicas(3), sleeps(api.Stopping)}, true},
		"the set sleeps":                       {[]build.Option{build.Replicas(0), sleeps(api.Asleep), stop()}, false},
		"the set wakes":                        {[]build.Option{build.Replicas(0), sleeps(api.Waking), stop()}, true},
		"its start was rejected just now":      {[]build.Option{build.Replicas(0), sleeps(api.Waking), stop(build.RefusedBy("a quota"))}, false},
		"its start was rejected some time ago": {[]build.Option{build.Replicas(0), sleeps(api.Waking), stop(refused)}, true},
		"the pods were asked back":             {[]build.Option{build.Replicas(3), stop(build.StartedFor(time.Minute))}, true},
		"its Scaler was deleted while paused":  {[]build.Option{build.Replicas(0), stop(build.StoppedByScaler(build.ID))}, true},
	} {
		set := build.Set("web", row.options...)
		for _, swept := range []bool{false, true} {
			change := operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Retry: retry, Swept: swept}
			concerns(t, fmt.Sprintf("%s, swept %t", name, swept), scaling.Concerned(change), row.want)
			change.Gone = true
			concerns(t, name+", and it is gone", scaling.Concerned(change), api.LoadStop(set) != nil)
		}
	}
}

type errUnreadable struct{}

func (errUnreadable) Error() string { return "it cannot be read" }

func TestChangeOfAScaler(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*v1alpha1.Scaler)
		gone   bool
		want   bool
	}{
		"it is at its target":             {func(*v1alpha1.Scaler) {}, false, false},
		"it is gone":                      {func(*v1alpha1.Scaler) {}, true, true},
		"it is new":                       {func(s *v1alpha1.Scaler) { s.Status = v1alpha1.ScalerStatus{} }, false, true},
		"its spec has changed":            {func(s *v1alpha1.Scaler) { s.Generation = 5 }, false, true},
		"it has no count":                 {func(s *v1alpha1.Scaler) { s.Spec.Replicas = nil }, false, true},
		"a request came during a scaling": {func(s *v1alpha1.Scaler) { s.Spec.Replicas = ptr.To[int32](4) }, false, true},
		"it is scaling":                   {func(s *v1alpha1.Scaler) { s.Status.Stage = v1alpha1.StageScaling }, false, true},
		"it has failed":                   {func(s *v1alpha1.Scaler) { s.Status.Stage = v1alpha1.StageFailed }, false, true},
		"a retry is requested": {
			func(s *v1alpha1.Scaler) { s.Annotations = map[string]string{api.RetryAnnotation: ""} }, false, true,
		},
		"an unrelated annotation": {func(s *v1alpha1.Scaler) { s.Annotations = map[string]string{"note": ""} }, false, false},
		"it has another count than the fixed one": {
			func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{Fixed: ptr.To[int32](4)} }, false, true,
		},
		"it has the fixed count": {
			func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{Fixed: s.Spec.Replicas} }, false, false,
		},
		"other clients scale it": {func(s *v1alpha1.Scaler) {
			s.Spec.Mode = &v1alpha1.ScalerMode{ExternallyScaled: &v1alpha1.ExternalMode{}}
		}, false, false},
		"it has an autoscaler": {
			func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{}} }, false, true,
		},
		"it has an autoscaler by CPU": {func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{}} }, false, true},
		"it has an autoscaler and is paused": {func(s *v1alpha1.Scaler) {
			s.Spec.Mode, s.Spec.Paused = &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{}}, true
			s.Status.Desired = ptr.To[int32](0)
		}, false, false},
		"it had an autoscaler": {func(s *v1alpha1.Scaler) {
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAutoscaled}}
		}, false, true},
		"it is not healthy": {func(s *v1alpha1.Scaler) {
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse}}
		}, false, true},
		"it is healthy": {func(s *v1alpha1.Scaler) {
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionTrue}}
		}, false, false},
		"its status has no count": {func(s *v1alpha1.Scaler) { s.Status.Desired = nil }, false, true},
	} {
		concerns(t, name, scaling.ConcernedByScaler(scaler("pilot", 0, edit(row.change)), false, row.gone), row.want)
	}
}

// TestScalerOfSleepingSet: the sweep knows that the set is held at zero. Its Scaler still requests its members.
func TestScalerOfSleepingSet(t *testing.T) {
	autoscaled := func(s *v1alpha1.Scaler) { s.Spec.Mode = &v1alpha1.ScalerMode{Auto: &v1alpha1.AutoMode{}} }
	atZero := edit(func(s *v1alpha1.Scaler) { s.Status.Desired = new(int32) })
	for name, row := range map[string]struct {
		scaler        *v1alpha1.Scaler
		awake, asleep bool // whether it concerns scale then
	}{
		"its members run":                {scaler("pilot", 0), false, true},
		"its members are stopped":        {scaler("pilot", 0, atZero), true, false},
		"it has no count":                {scaler("pilot", 0, atZero, edit(func(s *v1alpha1.Scaler) { s.Spec.Replicas = nil })), true, true},
		"it has an autoscaler":           {scaler("pilot", 0, edit(autoscaled)), true, true},
		"its autoscaler must not return": {scaler("pilot", 0, atZero, edit(autoscaled)), true, false},
		"its autoscaler has to be deleted": {scaler("pilot", 0, atZero, edit(func(s *v1alpha1.Scaler) {
			s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAutoscaled}}
		})), true, true},
	} {
		concerns(t, name+", and the set is awake", scaling.ConcernedByScaler(row.scaler, false, false), row.awake)
		concerns(t, name+", and the set sleeps", scaling.ConcernedByScaler(row.scaler, true, false), row.asleep)
	}
}

func TestChangeOfAHook(t *testing.T) {
	for name, row := range map[string]struct {
		job  *batchv1.Job
		gone bool
		want bool
	}{
		"it runs":                    {&batchv1.Job{}, false, false},
		"it is gone":                 {&batchv1.Job{}, true, true},
		"it is complete":             {build.With(&batchv1.Job{}, build.Complete()), false, true},
		"it has failed":              {build.With(&batchv1.Job{}, build.Failed("x", "y")), false, true},
		"one of its pods has failed": {&batchv1.Job{Status: batchv1.JobStatus{Failed: 1}}, false, false},
		"its failure is not final": {&batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobFailed, Status: corev1.ConditionFalse},
			{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}}}, false, false},
	} {
		concerns(t, name, scaling.ConcernedByJob(row.job, row.gone), row.want)
	}
}

// TestOneScalerOwnsTheSet: the Scaler in the record, or else the oldest one.
func TestOneScalerOwnsTheSet(t *testing.T) {
	deleted := scaler("oldest", 2*time.Hour, build.Deleting())
	pilot, older := scaler("pilot", time.Minute), scaler("older", time.Hour)
	twin := scaler("a-twin", time.Hour)
	for name, row := range map[string]struct {
		scalers []*v1alpha1.Scaler
		record  *api.Scale
		want    string
	}{
		"no Scaler":                           {nil, nil, ""},
		"no Scaler, but a record":             {nil, record(api.Succeeded), ""},
		"one Scaler":                          {[]*v1alpha1.Scaler{pilot}, nil, "pilot"},
		"the older Scaler":                    {[]*v1alpha1.Scaler{pilot, older}, nil, "older"},
		"the older Scaler, in another order":  {[]*v1alpha1.Scaler{older, pilot}, nil, "older"},
		"two Scalers of the same age":         {[]*v1alpha1.Scaler{older, twin}, nil, "a-twin"},
		"the Scaler in the record":            {[]*v1alpha1.Scaler{older, pilot}, record(api.Scaling), "pilot"},
		"the Scaler in the record is gone":    {[]*v1alpha1.Scaler{older}, record(api.Scaling), "older"},
		"a deleted Scaler beside another":     {[]*v1alpha1.Scaler{deleted, pilot}, nil, "pilot"},
		"only a deleted Scaler":               {[]*v1alpha1.Scaler{deleted}, nil, ""},
		"the Scaler in the record is deleted": {[]*v1alpha1.Scaler{scaler("pilot", 0, build.Deleting()), older}, record(api.Scaling), "older"},
		"another Scaler with the recorded name": {
			[]*v1alpha1.Scaler{scaler("pilot", 0, build.UID("uid-new")), older}, record(api.Scaling), "older",
		},
	} {
		got := ""
		if owner := scaling.Owner(row.scalers, row.record); owner != nil {
			got = owner.Name
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

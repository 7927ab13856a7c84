package scale

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// drainingScaler returns a set in the phase of a scaling from 3 to 1, whose spec.replicas is live. Its Scaler has a pre hook, which drains
// members.
func drainingScaler(phase api.Phase, live int32, change ...func(*api.Scale)) Input {
	set := build.Set("web", build.Replicas(live))
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID, Phase: phase,
		Request: "1", Attempt: 1,
		Set: api.SetRef{Name: "web", UID: set.UID}, Started: metav1.NewTime(build.Now),
		Deadline: operation.Moment(build.Now.Add(time.Minute))},
		Scaler: api.ScalerRef{Name: "drain", UID: "uid-drain"}, Previous: 3, Target: 1}
	for _, c := range change {
		c(record)
	}
	set.Annotations = map[string]string{api.ScaleAnnotation: record.Encode()}
	template := runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"hook","image":"drain"}]}}`)}
	scaler := &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "drain", UID: types.UID("uid-drain"),
		ResourceVersion: "1"},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](1),
			Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: template}}}}}
	return Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set, Scalers: []*v1alpha1.Scaler{scaler}}
}

func drainFailedAt(phase api.Phase) func(*api.Scale) {
	return func(r *api.Scale) { r.FailedAt, r.Finished, r.Deadline = phase, operation.Moment(build.Now), nil }
}

func withoutChange(r *api.Scale) { r.Previous, r.Deadline = r.Target, nil }

// storedBy returns the record that the plan stores, and whether it changes the count.
func storedBy(t *testing.T, p plan.Plan) (record *api.Scale, counts bool) {
	t.Helper()
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			text, _ := op.Value.(string)
			switch {
			case a.Resource != plan.StatefulSets:
			case op.Path == replicasPath && op.Op != "test":
				counts = true
			case strings.HasPrefix(text, `{"version"`):
				record = &api.Scale{}
				if err := json.Unmarshal([]byte(text), record); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return record, counts
}

// checkLeadsTo checks that the plan stores a record with the phase and counts, and does not change spec.replicas.
func checkLeadsTo(t *testing.T, p plan.Plan, phase api.Phase, previous, target int32) {
	t.Helper()
	record, counts := storedBy(t, p)
	if record == nil || record.Phase != phase || record.Previous != previous || record.Target != target || counts {
		t.Errorf("%s\nrecord %+v, changes the count: %t", p, record, counts)
	}
}

// TestRetryDrainsMembersAddedAfterFailure: a member that was started after the pre hook has run is not drained.
func TestRetryDrainsMembersAddedAfterFailure(t *testing.T) {
	for phase, live := range map[api.Phase]int32{api.PreScaling: 5, api.Scaling: 3, api.PostScaling: 2} {
		in := drainingScaler(api.Failed, live, drainFailedAt(phase))
		in.Retry = true
		checkLeadsTo(t, Decide(in), api.PreScaling, live, 1)
	}
	same := drainingScaler(api.Failed, 1, drainFailedAt(api.Scaling))
	same.Retry = true
	checkLeadsTo(t, Decide(same), api.Scaling, 3, 1)
}

func TestMembersAddedByOtherClientsAreDrained(t *testing.T) {
	idle := drainingScaler(api.Succeeded, 4, withoutChange)
	checkLeadsTo(t, Decide(idle), api.PreScaling, 4, 1)
	for phase, live := range map[api.Phase]int32{api.PreScaling: 5, api.Scaling: 3, api.PostScaling: 2} {
		checkLeadsTo(t, Decide(drainingScaler(phase, live)), api.Failed, 3, 1)
	}
	idle.Scalers[0].Spec.Hooks = v1alpha1.ScalerHooks{}
	if _, counts := storedBy(t, Decide(idle)); !counts {
		t.Error("without a pre hook the count is not restored at once")
	}
}

// TestChangedStartOrdinalAfterHookFailsScaling: if spec.ordinals.start changes, the pre hook has drained members that stay.
func TestChangedStartOrdinalAfterHookFailsScaling(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	record, _ := api.LoadScale(in.Set)
	hook := resources.MakeScaleHook(in.Set, record, preHook, &corev1.PodTemplateSpec{}, time.Minute)
	hook.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	in.Jobs = []*batchv1.Job{hook}
	in = withHookPods(in)
	if _, counts := storedBy(t, Decide(in)); !counts {
		t.Error("the count does not change after the hook")
	}
	in.Set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	checkLeadsTo(t, Decide(in), api.Failed, 3, 1)

	again := drainingScaler(api.Failed, 1, drainFailedAt(api.Scaling), func(r *api.Scale) { r.Start, r.Target = 2, 1 })
	again.Retry, again.Scalers[0].Spec.Replicas = true, ptr.To[int32](0)
	checkLeadsTo(t, Decide(again), api.PreScaling, 1, 0)
}

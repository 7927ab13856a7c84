package scalehooks

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestPauseOfFormerSleepEnds: a set with a Scaler sleeps, so Drydock has paused the Scaler. A user deletes the set and creates it again,
// for example with kubectl replace --force. The new set has no sleep that would end the pause.
func TestPauseOfFormerSleepEnds(t *testing.T) {
	slept := build.Sleep(api.Asleep, build.ScaledDown(0), func(s *api.Sleep) { s.Set.UID = "uid-before" })
	withFormer := build.Annotation(api.SleepAnnotation, slept.Encode())
	former := editScaler(func(s *v1alpha1.Scaler) {
		s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-before"}
	})
	active := build.Sleep(api.Asleep, build.ScaledDown(0))
	byUser := editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Paused = true
		s.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "kubectl-patch", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}},
			{Manager: api.FieldManager, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	})
	byBoth := build.Edit(func(s *v1alpha1.Scaler) {
		build.With(s, build.PausedByDrydock())
		s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}})
	})
	// Velero restores managedFields, and no status.
	restored := build.Edit(func(s *v1alpha1.Scaler) {
		build.With(s, build.PausedByDrydock())
		s.Status = v1alpha1.ScalerStatus{}
	})
	for name, row := range map[string]struct {
		set    []build.Option
		scaler build.Option
		ends   bool
	}{
		"a backup restores the Scaler":                         {nil, restored, true},
		"a backup restores the Scaler, and the set is at zero": {[]build.Option{build.Replicas(0)}, restored, true},
		"a backup restores the Scaler of a set that sleeps": {[]build.Option{build.Replicas(0), build.WithSleep(active),
			withRecord(api.Succeeded, pausedAtZero)}, restored, false},
		"the new set has no records":                        {nil, build.PausedByDrydock(), true},
		"the new set is at zero and has no records":         {[]build.Option{build.Replicas(0)}, build.PausedByDrydock(), true},
		"the new set has the annotations of the former one": {[]build.Option{withFormer}, build.PausedByDrydock(), true},
		"the set has lost only the record of its sleep": {[]build.Option{build.UID("uid-before"), build.Replicas(0)},
			build.PausedByDrydock(), false}, // idle-timeout has a ControllerRevision of it
		"the new set is at zero, and has the annotations of the former one": {[]build.Option{build.Replicas(0), withFormer},
			build.PausedByDrydock(), true},
		"the set sleeps": {[]build.Option{build.Replicas(0), build.WithSleep(active), withRecord(api.Succeeded, pausedAtZero)},
			build.PausedByDrydock(), false},
		"the record of the sleep cannot be read": {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, build.PausedByDrydock(), false},
		"a user has paused the Scaler":           {nil, byUser, false},
		"a user has applied the pause, too":      {nil, byBoth, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := observed(web(3, row.set...), pilot(former, row.scaler))
			ended := false
			for range 5 {
				p := Decide(in)
				ended = ended || p.Reason == api.PauseEnded
				for _, a := range p.Actions {
					in = in.afterAction(a)
				}
				if record := operation.Of(in.Set).Scale; record.Active() && record.Target == 0 && row.ends {
					t.Fatalf("the set is scaled to zero: %s", build.Words(record))
				}
			}
			if paused := in.Scalers[0].Spec.Paused; ended != row.ends || paused == row.ends {
				t.Errorf("the pause has ended: %t, want %t; paused: %t", ended, row.ends, paused)
			}
			if n := statefulset.Replicas(in.Set); row.ends && n != 3 && !operation.Of(in.Set).Scaling() {
				t.Errorf("%d replicas, and nothing scales the set", n)
			}
		})
	}
}

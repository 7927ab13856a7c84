package operation_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestRefusalDigestCoversTheSet: the digest covers what users and owners decide, and nothing that Drydock or an autoscaler writes.
func TestRefusalDigestCoversTheSet(t *testing.T) {
	edit := build.Edit[*appsv1.StatefulSet]
	retainWhenScaled := func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, s.Generation = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, 6
	}
	asks := []build.Option{build.Resize("data=1Gi"), build.Template("data", "1Gi", "fast"),
		build.WhenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)}
	before := operation.RefusalDigest(build.Set("web", asks...))
	for name, row := range map[string]struct {
		change build.Option
		same   bool
	}{
		"no change":             {build.Edit(func(*appsv1.StatefulSet) {}), true},
		"a foreign label":       {build.Label("team", "a"), true},
		"the record":            {build.Annotation(api.StatusAnnotation, "{}"), true},
		"the method":            {build.Annotation(api.ResizeMethodAnnotation, "copy"), false},
		"the strategy":          {build.Annotation(api.StrategyAnnotation, "rolling"), false},
		"the cutover":           {build.Annotation(api.CutoverAnnotation, "approve"), false},
		"the longest stop":      {build.Annotation(api.MaxStopAnnotation, "30s"), false},
		"the first pass":        {build.Annotation(api.FirstPassAnnotation, "off"), false},
		"the member check":      {build.Annotation(api.MemberCheckAnnotation, "tcp:80"), false},
		"a hook":                {build.Annotation(api.BeforeMemberAnnotation, "{}"), false},
		"the options of movers": {build.Annotation(api.MoverAnnotation, "{}"), false},
		"the parallelism":       {build.Annotation(api.ResizeParallelismAnnotation, "1"), false},
		"the owner policy":      {build.Annotation(api.OwnerPolicyAnnotation, "ignore"), false},
		"the finalizers":        {build.Finalizers("example.com/keep"), false},
		"a volume template":     {edit(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }), false},
		"another encoding": {edit(func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Kind, s.Spec.VolumeClaimTemplates[0].Status.Phase = "PersistentVolumeClaim", "Pending"
		}), true},
		"the update strategy":  {edit(func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "OnDelete" }), false},
		"the pod template":     {edit(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "web-2" }), false},
		"a scale down":         {edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas, s.Generation = ptr.To[int32](0), 6 }), true},
		"the policy of a stop": {edit(retainWhenScaled), true},
		"a cleanup":            {build.Finalizers(api.CleanupFinalizer), true},
		"the owner":            {build.ControlledBy("Database", "main"), false},
		"the activity probe":   {build.Annotation(api.ActivityProbeAnnotation, "tcp:5432"), false},
		"the group":            {build.InGroup("shop"), false},
		"the request":          {build.Resize("data=2Gi"), false},
		"the retry annotation": {build.Annotation(api.RetryAnnotation, "now"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := operation.RefusalDigest(build.Set("web", append(slices.Clip(asks), row.change)...)); (got == before) != row.same {
				t.Errorf("digest %s, before %s, want the same: %v", got, before, row.same)
			}
		})
	}
}

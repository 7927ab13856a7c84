//go:build cluster

package api

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestResizeAndRollbackOfOtherSets: sets with fields that other tests leave alone. Two of three claims of each member are copied, and come
// back.
// Invariants: I1, I4.
func TestResizeAndRollbackOfOtherSets(t *testing.T) {
	t.Parallel()
	ordered := func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }
	rolling := func(s *appsv1.StatefulSet) { s.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling) }
	for name, edits := range map[string][]func(*appsv1.StatefulSet){
		"the members start in order, from 3": {ordered, startsAt3},
		"from 3, one after the other":        {ordered, startsAt3, rolling},
		"OnDelete":                           {onDelete},
		"a partition":                        {rolling, withPartition},
		"minReadySeconds":                    {rolling, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3 }},
		"claims are deleted with the set":    {ordered, deletesClaims},
		"an init container and a sidecar":    {withInitContainers},
	} {
		t.Run(name, func(t *testing.T) {
			set := kit.WorldSet("web", 2, "64Mi", "data", "wal", "logs")
			for _, edit := range edits {
				edit(set)
			}
			w, drive := readyWorld(t, set)
			var claims []string
			for _, template := range []string{"data", "wal", "logs"} {
				for i := range 2 {
					claims = append(claims, fmt.Sprintf("%s-web-%d", template, int(startOf(set))+i))
				}
			}
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,wal=32Mi@" + kit.OtherClass})
			done := w.Finish(drive, "web")
			expectPhase(t, done, api.Succeeded)
			expectWhole(t, w, "web", 2, claims...)

			before, _ := volumesOf(done)
			expectPhase(t, rollBack(t, w, drive, done), api.Succeeded)
			expectOn(t, w, before)
			expectWhole(t, w, "web", 2, claims...)
		})
	}
}

func startsAt3(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }

func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}

func startOf(s *appsv1.StatefulSet) int32 {
	return ptr.Deref(s.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start
}

func withPartition(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
}

// withInitContainers adds an init container that ends before the pod starts, and one that runs as long as the pod.
func withInitContainers(s *appsv1.StatefulSet) {
	s.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "dev.local/busybox:1"},
		{Name: "log", Image: "dev.local/busybox:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
}

func deletesClaims(s *appsv1.StatefulSet) {
	s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
}

//go:build cluster

package e2e

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestCopyOfVolumesThatAttachSlowly: attaching and detaching take ten seconds each. A volume stays attached while a pod
// or a mover uses it.
func TestCopyOfVolumesThatAttachSlowly(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Patience = 5 * time.Minute
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.SlowClass)
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy) // the class allows expansion, too
	s.CreateSet(set)
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	for _, move := range s.Status("web").Moves() {
		s.Eventually("the old volume of "+move.Claim+" is detached", func() string {
			if slices.Contains(attachedVolumes(t, s), move.OldVolume) {
				return "it is attached"
			}
			return ""
		})
	}
}

func attachedVolumes(t *testing.T, s *stage.Stage) []string {
	t.Helper()
	list, err := s.Kube.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var volumes []string
	for _, a := range list.Items {
		volumes = append(volumes, ptr.Deref(a.Spec.Source.PersistentVolumeName, ""))
	}
	return volumes
}

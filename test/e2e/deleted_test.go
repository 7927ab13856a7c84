//go:build cluster

package e2e

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestSetIsDeletedInEveryWayDuringResize: a client deletes the set and creates it again with its old templates and its
// request. It is deleted in the foreground while members are held, in the background while a mover waits, and without
// its pods during a copy. Each time Drydock reverts its work and begins again.
func TestSetIsDeletedInEveryWayDuringResize(t *testing.T) {
	t.Parallel()
	manifest := stage.WithSlowStop(3, acksSet(2, api.StrategyWhole))
	manifest.Annotations[api.ResizeAnnotation] = "data=160Mi"
	s := newAcks(t, manifest.DeepCopy())
	drydock(t, s.Stage)
	for _, step := range []struct {
		phase api.MemberPhase
		how   metav1.DeletionPropagation
	}{
		{api.MemberStopping, metav1.DeletePropagationForeground},
		{api.MemberWaiting, metav1.DeletePropagationBackground},
		{api.MemberCopying, metav1.DeletePropagationOrphan},
	} {
		s.AwaitMember(t, step.phase)
		s.DeleteSet("web", step.how)
		s.createAgain(t, manifest.DeepCopy())
	}
	s.expectMovedTo(t, "160Mi")
}

// createAgain creates the set, and tries again until it exists.
func (s *acks) createAgain(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	set.Namespace = s.Namespace
	s.Eventually("the set is created again", func() string {
		_, err := s.Kube.AppsV1().StatefulSets(s.Namespace).Create(t.Context(), set, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
}

//go:build cluster

package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestNothingIsAttachedDuringStop: a stopped member starts again on the node where its new volume has been attached
// since the first pass. Attaching it would take as long as the rest of the stop.
func TestNothingIsAttachedDuringStop(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Patience = 5 * time.Minute
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.SlowClass)
	set.Annotations[api.ResizeMethodAnnotation] = string(api.MethodCopy) // the class allows expansion, too
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	s.CreateSet(set)
	before := s.Data(t)
	drydock(t, s)
	changes := watchAttachments(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := s.ExpectResized(t, before)
	for _, member := range status.Members {
		if member.HeldAt == nil || member.ReadyAt == nil {
			t.Fatalf("member %d was held %v and ready %v", member.Ordinal, member.HeldAt, member.ReadyAt)
		}
		stop := member.ReadyAt.Sub(member.HeldAt.Time)
		t.Logf("member %d was down for %s", member.Ordinal, stop)
		for _, move := range member.Claims {
			for _, c := range changes() {
				if c.volume == move.NewVolume && c.at.After(member.HeldAt.Time) && c.at.Before(member.ReadyAt.Time) {
					t.Errorf("volume %s of claim %s was %s %s after its member was told to stop", c.volume, move.Claim, c.what,
						c.at.Sub(member.HeldAt.Time))
				}
			}
		}
	}
}

// attachment records that a volume was attached or detached.
type attachment struct {
	volume, what string
	at           time.Time
}

// watchAttachments records attached and detached volumes from now on. The returned function lists them.
func watchAttachments(t *testing.T, s *stage.Stage) func() []attachment {
	t.Helper()
	list, err := s.Kube.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	events, err := s.Kube.StorageV1().VolumeAttachments().Watch(ctx,
		metav1.ListOptions{ResourceVersion: list.ResourceVersion, TimeoutSeconds: ptr.To[int64](3600)})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var changes []attachment
	ended := false
	go func() {
		for event := range events.ResultChan() {
			a, is := event.Object.(*storagev1.VolumeAttachment)
			what := map[watch.EventType]string{watch.Added: "attached", watch.Deleted: "detached"}[event.Type]
			if is && what != "" {
				mu.Lock()
				changes = append(changes, attachment{ptr.Deref(a.Spec.Source.PersistentVolumeName, ""), what, time.Now()})
				mu.Unlock()
			}
		}
		mu.Lock()
		ended = true
		mu.Unlock()
	}()
	return func() []attachment {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			t.Fatal("the watch of attachments has ended, so something may be missed")
		}
		return slices.Clone(changes)
	}
}

package e2e

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestI5AnOperatorThatFights: a small operator gives the set its two replicas back whenever it has others, unless its
// resource is paused. It has to be quiet while the volumes are copied, and awake afterwards.
func TestI5AnOperatorThatFights(t *testing.T) {
	t.Parallel()
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	s := stage.New(t)
	s.DefineKind(row, kind)
	owner := s.CreateCustom(row, kind, "main", map[string]any{"replicas": int64(2)}, nil)
	s.CreateSet(stage.Workload("64Mi"))
	s.OwnedBy("web", owner)
	before := s.Data(t)

	var fights atomic.Int32
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			set, now := s.Set("web"), s.Custom(row, kind, "main")
			if set != nil && set.DeletionTimestamp == nil && *set.Spec.Replicas != 2 && !row.Paused(now) {
				fights.Add(1)
				s.TryScale("web", 2)
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })

	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	if n := fights.Load(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	s.Eventually("the owner is as before (I5)", func() string {
		if now := s.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) > 0 {
			return "it is paused"
		}
		return ""
	})
	s.Scale("web", 1)
	s.Eventually("the operator works again", func() string {
		if fights.Load() == 0 {
			return "it does not"
		}
		return ""
	})
	s.AwaitReady(t)
}

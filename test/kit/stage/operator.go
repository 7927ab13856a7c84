package stage

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/shared/owners"
)

// Operator is a stand-in for an operator. It restores the replicas of set web, unless its custom resource is paused.
type Operator struct {
	replicas int
	fights   atomic.Int32
}

// Corrections returns how often it has restored the replicas.
func (o *Operator) Corrections() int { return int(o.fights.Load()) }

// StartOperator creates the custom resource main, which controls set web, and runs its operator until the test ends.
func (s *Stage) StartOperator(t testing.TB, row owners.Row, kind string, replicas int) *Operator {
	t.Helper()
	s.DefineKind(row, kind)
	s.SetController("web", s.CreateCustom(row, kind, "main", map[string]any{"replicas": int64(replicas)}, nil))
	operator := &Operator{replicas: replicas}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			set, now := s.Set("web"), s.Custom(row, kind, "main")
			if set != nil && set.DeletionTimestamp == nil && int(*set.Spec.Replicas) != replicas && !row.Paused(now) {
				operator.fights.Add(1)
				s.TryScale("web", replicas)
			}
			<-time.After(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	return operator
}

// ExpectOperatorActive checks that the custom resource is unchanged, and that its operator restores the replicas after
// a manual scaling (I5).
func (s *Stage) ExpectOperatorActive(t testing.TB, row owners.Row, kind string, operator *Operator) {
	t.Helper()
	s.Eventually("the owner is as before (I5)", func() string {
		if now := s.Custom(row, kind, "main"); row.Paused(now) || len(now.GetAnnotations()) != 0 {
			return "it is paused"
		}
		return ""
	})
	before := operator.Corrections()
	s.Scale("web", 1)
	s.Eventually("the operator works again", func() string {
		if operator.Corrections() == before {
			return "it does not"
		}
		return ""
	})
	s.Eventually("the operator's replicas are ready", func() string {
		if n := s.Set("web").Status.ReadyReplicas; int(n) != operator.replicas {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
}

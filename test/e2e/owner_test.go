//go:build cluster

package e2e

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestI5AnOperatorThatFights: a small operator gives the set its two replicas back whenever it has others, unless its
// resource is paused. It has to be quiet while the volumes are copied, and awake afterwards.
// Invariants: I5.
func TestI5AnOperatorThatFights(t *testing.T) {
	t.Parallel()
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	operator := s.StartOperator(t, row, kind, 2)
	drydock(t, s)
	s.MayPause(row.Operator)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	if n := operator.Fights(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	s.ExpectOperatorAtWork(t, row, kind, operator)
}

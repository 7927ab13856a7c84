//go:build cluster

package e2e

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestOperatorThatRestoresReplicasIsPaused: an operator restores the two replicas of the set unless its custom resource
// is paused. It must be paused while the volumes are copied, and active afterwards.
// Invariants: I5.
func TestOperatorThatRestoresReplicasIsPaused(t *testing.T) {
	t.Parallel()
	const kind = "Prometheus"
	row, _ := owners.BuiltIn().Find("monitoring.coreos.com", kind)
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	operator := s.StartOperator(t, row, kind, 2)
	drydock(t, s)
	s.GrantPause(row.Operator)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
	if n := operator.Corrections(); n > 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	s.ExpectOperatorActive(t, row, kind, operator)
}

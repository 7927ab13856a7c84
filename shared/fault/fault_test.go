package fault

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestStatusOfErrors(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for name, row := range map[string]struct {
		err  error
		want int
	}{
		"no error":                             {nil, 200},
		"an unknown error: try again":          {errors.New("connection reset"), 503},
		"malformed input":                      {Permanent(errors.New("bad")), 422},
		"a wrapped conflict":                   {fmt.Errorf("patching: %w", Conflict(errors.New("x"))), 409},
		"the API server's conflict":            {FromAPI(apierrors.NewConflict(claims, "a", errors.New("x"))), 409},
		"the name exists: decide again":        {FromAPI(apierrors.NewAlreadyExists(claims, "a")), 409},
		"quota or policy forbids it":           {FromAPI(apierrors.NewForbidden(claims, "a", errors.New("x"))), 422},
		"the API server is overloaded":         {FromAPI(apierrors.NewTooManyRequests("x", 1)), 503},
		"not found: not 404, which is retried": {FromAPI(apierrors.NewNotFound(claims, "a")), 503},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Status(row.err); got != row.want {
				t.Errorf("Status(%v) = %d, want %d", row.err, got, row.want)
			}
		})
	}
}

func TestTrialKeepsClassAndMessage(t *testing.T) {
	refused := FromAPI(apierrors.NewForbidden(schema.GroupResource{Resource: "statefulsets"}, "web", errors.New("no")))
	trial := fmt.Errorf("trying: %w", DryRun(refused))
	if !IsDryRun(trial) || !IsPermanent(trial) || IsDryRun(refused) || DryRun(nil) != nil {
		t.Errorf("%v: trial %t, permanent %t; %v: trial %t", trial, IsDryRun(trial), IsPermanent(trial), refused, IsDryRun(refused))
	}
	if words := Words(trial); words != `statefulsets "web" is forbidden: no` {
		t.Errorf("the API server's message is %q", words)
	}
	if words := Words(errors.New("connection reset")); words != "connection reset" {
		t.Errorf("without an answer the message is %q", words)
	}
}

func TestRefusedEvictionNamesItsBudget(t *testing.T) {
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
		Message: "The disruption budget web needs 2 healthy pods and has 2 currently"}}
	const want = "Cannot evict pod as it would violate the pod's disruption budget: The disruption budget web needs 2 healthy pods and " +
		"has 2 currently"
	if words := Words(Budget(refusal)); words != want {
		t.Errorf("the API server's message is %q", words)
	}
}

func TestTerminatingNamespaceIsRecognizedByItsCause(t *testing.T) {
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("it is being terminated"))
	if IsNamespaceTerminating(FromAPI(refusal)) {
		t.Error("a refusal without the cause is recognized")
	}
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	if !IsNamespaceTerminating(fmt.Errorf("creating a pod: %w", FromAPI(refusal))) {
		t.Error("the cause is not recognized")
	}
}

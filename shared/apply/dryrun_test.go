package apply

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// TestDryRunRefusedByWebhookDeletesNothing: a webhook refuses the claim. If its answer has no code, the API server reports 400 without a
// reason. A webhook chooses its words.
func TestDryRunRefusedByWebhookDeletesNothing(t *testing.T) {
	for name, denial := range map[string]*apierrors.StatusError{
		"without a code": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400,
			Message: `admission webhook "policies.example" denied the request: class gold is not allowed`}},
		"with its own quota": {ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "quota.tenants.example" denied the request: tenant shop has exceeded quota: 100Gi of gold`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &writer{errs: []error{denial, nil}}
			_, _, err := run(t, w, tryFirst(), plan.Noop(api.UpToDate))
			if len(w.writes) != 1 || err == nil {
				t.Errorf("the webhook refused the successor, and the claim was deleted: %v (error %v)", w.writes, err)
			}
		})
	}
}

// TestDryRunRefusedOnlyAsDryRun: a quota still counts the present claim, or a webhook does not support dry runs. Neither refuses the claim.
func TestDryRunRefusedOnlyAsDryRun(t *testing.T) {
	for name, answer := range map[string]error{
		"a quota": apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, claim.Name,
			errors.New("exceeded quota: team, requested: requests.storage=1Gi, used: requests.storage=1Gi, limited: requests.storage=1Gi")),
		"a webhook": apierrors.NewBadRequest(`admission webhook "policies.example" does not support dry run`),
	} {
		w := &writer{errs: []error{answer, nil}}
		if _, _, err := run(t, w, tryFirst(), plan.Noop(api.UpToDate)); len(w.writes) != 2 || err != nil {
			t.Errorf("%s: %v, %v", name, w.writes, err)
		}
	}
}

package command

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
)

// TestOutcome: what the API server answers to a dry run, and what that means.
func TestOutcome(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	coded := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "said so"}}
	}
	for name, row := range map[string]struct {
		err  error
		want forecast.Outcome
	}{
		"it would take it":                    {nil, forecast.Accepted},
		"the name is taken, which comes last": {apierrors.NewAlreadyExists(jobs, "web"), forecast.Accepted},
		"a quota, a policy":                   {apierrors.NewForbidden(jobs, "web", errors.New("exceeded quota")), forecast.Denied},
		"its validation":                      {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "web", nil), forecast.Denied},
		"a webhook, with its own code":        {coded(400, ""), forecast.Denied},
		"a webhook, with a strange code":      {coded(418, ""), forecast.Denied},
		"a webhook that knows no dry run":     {apierrors.NewBadRequest("does not support dry run"), forecast.Unchecked},
		"a webhook that cannot be reached":    {apierrors.NewInternalError(errors.New("failed calling webhook")), forecast.Unchecked},
		"somebody else wrote meanwhile":       {apierrors.NewConflict(jobs, "web", errors.New("changed")), forecast.Unchecked},
		"no answer":                           {errors.New("connection refused"), forecast.Unchecked},
	} {
		if got, words := outcome(row.err); got != row.want || (words == "") != (got == forecast.Accepted) {
			t.Errorf("%s: %s, %q; want %s", name, got, words, row.want)
		}
	}
}

// TestUsageOfAKubelet: of the claims of the namespace, those that it measures.
func TestUsageOfAKubelet(t *testing.T) {
	const text = `{"node":{"nodeName":"n"},"pods":[
		{"podRef":{"name":"web-0","namespace":"shop"},"volume":[
			{"name":"data","pvcRef":{"name":"data-web-0","namespace":"shop"},"usedBytes":5,"availableBytes":4,"capacityBytes":10},
			{"name":"device","pvcRef":{"name":"raw-web-0","namespace":"shop"},"capacityBytes":10},
			{"name":"kube-api-access","usedBytes":1,"capacityBytes":2}]},
		{"podRef":{"name":"web-0","namespace":"other"},"volume":[{"pvcRef":{"name":"data-web-1","namespace":"other"},"usedBytes":7,"availableBytes":3,"capacityBytes":10}]},
		{"podRef":{"name":"idle","namespace":"shop"}}]}`
	measured := map[string]grow.Usage{}
	if err := grow.ReadSummary([]byte(text), "shop", measured); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]forecast.Usage{"data-web-0": {Used: 5, Capacity: 10}}, used(measured)); diff != "" {
		t.Error(diff)
	}
	if err := grow.ReadSummary([]byte("<html>"), "shop", measured); err == nil {
		t.Error("a page is no summary")
	}
}

func TestBytesForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 3 << 29: "1.5 GiB", 1 << 40: "1 TiB"} {
		if got := bytesWords(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// TestPlanForPeople: as it is printed.
func TestPlanForPeople(t *testing.T) {
	q, used := resource.MustParse, int64(3<<29)
	d := &forecast.Document{Version: 1, Namespace: "shop", Set: "web", Request: "data=20Gi@fast", Verdict: forecast.Refused,
		Method: api.MethodCopy, Recreate: true, Templates: []api.TemplateTarget{{Name: "data", Size: q("20Gi"), Class: "fast"}},
		Before:  []resize.Problem{{Reason: api.NotManaged, Message: "the set opts in"}},
		Refused: []resize.Problem{{Reason: api.QuotaExceeded, Message: "no room\nat all"}},
		Claims: []forecast.Claim{
			{Name: "data-web-0", Method: api.MethodCopy, From: q("10Gi"), To: q("20Gi"), Class: "slow", NewClass: "fast", Volume: "pv-0",
				Used: &used, Capacity: 10 << 30,
				Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Users: []forecast.User{{Pod: "web-0"},
					{Pod: "debug", Foreign: true}}},
			{Name: "data-web-1", Method: api.MethodCopy, From: q("10Gi"), To: q("20Gi"), Class: "slow", NewClass: "fast", Volume: "pv-1",
				Capacity: 10 << 30, Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		},
		Strategy: api.StrategyRolling, Cutover: api.CutoverApprove, MemberCheck: "tcp:5432", Hooks: resources.Hooks,
		Members: []forecast.Member{{Ordinal: 1, Cold: "it has no pod"}, {Ordinal: 0, Pod: "web-0", Node: "node-1", Ready: true, Primary: true}},
		Budgets: []forecast.Budget{{Name: "web", Allows: 1, Asked: true}},
		Owner:   &forecast.Owner{APIVersion: "example.com/v1", Kind: "Database", Name: "main", Paused: true, How: "by annotation paused=true"},
		Copy:    forecast.Copy{Claims: 2, Measured: used, Unmeasured: 10 << 30},
		Stop: forecast.Stop{Members: 1, From: 10, To: 120, Basis: []string{"a start"}, Assumed: []string{"a rate"},
			Besides: []string{"the rest"}},
		Quotas: []resize.Room{{Quota: "team", Resource: "requests.storage", Hard: q("50Gi"), Used: q("20Gi"), Needs: q("40Gi")}},
		Checks: []forecast.Check{{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "a", Outcome: forecast.Accepted},
			{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "b", Outcome: forecast.Accepted},
			{Verb: plan.VerbPatch, Resource: plan.Claims, Name: "c", Outcome: forecast.Accepted},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "a", Outcome: forecast.Unchecked, Message: "you may not"},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "b", Outcome: forecast.Unchecked, Message: "you may not"}},
		Warnings: []string{"a warning"}, Suggestions: []string{"a suggestion"}, Assumed: []string{"a default"},
	}
	const want = `statefulset.apps/web: data=20Gi@fast would be refused

It would be refused:
- QuotaExceeded: no room at all

Nothing would happen until
- NotManaged: the set opts in

CLAIM        METHOD   SIZE           CLASS          ACCESS          OLD VOLUME   IN USE           USED BY
data-web-0   copy     10Gi -> 20Gi   slow -> fast   ReadWriteOnce   pv-0         1.5 GiB          web-0, debug (not the set's)
data-web-1   copy     10Gi -> 20Gi   slow -> fast   ReadWriteOnce   pv-1         at most 10 GiB   no pod

ORDER   MEMBER   NODE     IS               FIRST PASS
1       1        -        without a pod    none: it has no pod
2       0        node-1   ready, primary   beside the running pod

set        is created again around its running pods before the first member stops, with its new templates: data=20Gi@fast
owner      Database main (example.com/v1) is paused: by annotation paused=true
to copy    1.5 GiB of 2 claims, as the kubelets say, and at most 10 GiB where that is not measured
strategy   rolling: one member at a time, in the order above; the others keep serving
stops      when they are approved: kubectl drydock approve -n shop sts/web
check      tcp:5432 is asked of all other members before each stop, twice, and of each member after its start
hooks      drydock.dev/before-member has a Job run before each stop; if it fails, the member is not stopped, and the resize ends
           drydock.dev/after-member has a Job run after each start; if it fails, no other member is stopped, and the resize ends
stop       from 10s to 2m0s, of one member
           observed: a start
           assumed: a rate
           besides: the rest
budget     PodDisruptionBudget web would allow 1 of the set's pods to stop now; it is asked before each stop
quota      team allows 50Gi of requests.storage: 20Gi are used, 40Gi more needed, which is too much
tried      the API server would take 3 of 5 writes: 2 persistentvolumeclaims, 1 patch persistentvolumeclaims
           not tried: create jobs: you may not
warning    a warning
suggestion a suggestion
unknown    a default
`
	var out bytes.Buffer
	if err := printPlan(&out, d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); diff != "" {
		t.Errorf("%s\n%s", diff, out.String())
	}
	if err := refusal(d); err == nil || err.Error() != "StatefulSet shop/web: the resize would be refused: QuotaExceeded" {
		t.Error(err)
	}
}

// TestPlanWithNothingToSay is short.
func TestPlanWithNothingToSay(t *testing.T) {
	for request, want := range map[string]string{
		"":          "statefulset.apps/web: no resize is asked for; --resize TEMPLATE=SIZE shows the consequences of one\n",
		"data=10Gi": "statefulset.apps/web: data=10Gi: everything is as asked for\n",
	} {
		var out bytes.Buffer
		d := &forecast.Document{Set: "web", Request: request, Verdict: forecast.Nothing, Stop: forecast.Stop{None: true},
			Assumed: []string{"a default"}}
		if err := printPlan(&out, d); err != nil || out.String() != want || refusal(d) != nil {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}

func TestPlanOfAnUnreadableRequestForetellsNothing(t *testing.T) {
	var out bytes.Buffer
	d := &forecast.Document{Set: "web", Request: "data=2Gb", Verdict: forecast.Refused, Method: api.MethodExpand,
		Refused: []resize.Problem{{Reason: api.RequestInvalid, Message: `size "2Gb" is not a quantity`}}}
	if err := printPlan(&out, d); err != nil {
		t.Fatal(err)
	}
	const want = "statefulset.apps/web: data=2Gb would be refused\n\nIt would be refused:\n- RequestInvalid: size \"2Gb\" is not a quantity\n"
	if got := strings.TrimRight(out.String(), "\n") + "\n"; got != want {
		t.Errorf("%s", got)
	}
}

func TestSetThatIsCreatedAgainForPeople(t *testing.T) {
	data := api.TemplateTarget{Name: "data", Size: resource.MustParse("20Gi"), Class: "fast", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	for want, d := range map[string]forecast.Document{
		"is not created again: its templates are as asked for":                             {},
		"is created again around its running pods, with the changes serviceName=db, -logs": {Recreate: true, Fields: []string{"serviceName=db", "-logs"}},
		"is created again around its running pods before the first member stops, with its new templates: data=20Gi@fast:RWO, and with " +
			"the changes data/labels/a=b": {Recreate: true, Method: api.MethodCopy, Templates: []api.TemplateTarget{data}, Fields: []string{"data/labels/a=b"}},
	} {
		if got := setWords(&d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestStopForPeople(t *testing.T) {
	for want, s := range map[string]forecast.Stop{
		"none":                                {None: true},
		"about 10s, of one member":            {From: 10, To: 10, Members: 1},
		"from 1s to 2s, of each of 3 members": {From: 1, To: 2, Members: 3},
		"from 1s to 2s, of all 3 members":     {From: 1, To: 2, Members: 3, Together: true},
		"none: no member runs. The copies take from 1s to 2s": {None: true, From: 1, To: 2},
	} {
		if got := stopWords(s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestWarningsAreSaidOnce, and only the API server's own.
func TestWarningsAreSaidOnce(t *testing.T) {
	w := &warnings{}
	for _, text := range []string{"would violate", "would violate", "is deprecated"} {
		w.HandleWarningHeader(299, "-", text)
	}
	w.HandleWarningHeader(199, "-", "of a proxy")
	if got := fmt.Sprint(w.texts); got != "[the API server says: would violate the API server says: is deprecated]" {
		t.Error(got)
	}
}

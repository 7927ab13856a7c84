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
	"drydock.dev/shared/text"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/screen"
)

func TestOutcomeOfADryRun(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	coded := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "said so"}}
	}
	for name, row := range map[string]struct {
		err  error
		want forecast.Outcome
	}{
		"the write is accepted":                         {nil, forecast.Accepted},
		"only the name is taken, which is checked last": {apierrors.NewAlreadyExists(jobs, "web"), forecast.Accepted},
		"a quota or policy denies it":                   {apierrors.NewForbidden(jobs, "web", errors.New("exceeded quota")), forecast.Denied},
		"the validation fails":                          {apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "web", nil), forecast.Denied},
		"a webhook denies it with code 400":             {coded(400, ""), forecast.Denied},
		"a webhook denies it with code 418":             {coded(418, ""), forecast.Denied},
		"a webhook does not support dry runs":           {apierrors.NewBadRequest("does not support dry run"), forecast.Unchecked},
		"a webhook is unreachable":                      {apierrors.NewInternalError(errors.New("failed calling webhook")), forecast.Unchecked},
		"another client wrote first":                    {apierrors.NewConflict(jobs, "web", errors.New("changed")), forecast.Unchecked},
		"the API server does not answer":                {errors.New("connection refused"), forecast.Unchecked},
	} {
		if got, words := outcome(row.err); got != row.want || (words == "") != (got == forecast.Accepted) {
			t.Errorf("%s: %s, %q; want %s", name, got, words, row.want)
		}
	}
}

// TestUsageIsReadFromTheKubeletsSummary: claims of other namespaces, and volumes without a measurement, are left out.
func TestUsageIsReadFromTheKubeletsSummary(t *testing.T) {
	const text = `{"node":{"nodeName":"n"},"pods":[
		{"podRef":{"name":"web-0","namespace":"shop"},"volume":[
			{"name":"data","pvcRef":{"name":"data-web-0","namespace":"shop"},"usedBytes":5,"availableBytes":4,"capacityBytes":10},
			{"name":"device","pvcRef":{"name":"raw-web-0","namespace":"shop"},"capacityBytes":10},
			{"name":"kube-api-access","usedBytes":1,"capacityBytes":2}]},
		{"podRef":{"name":"web-0","namespace":"other"},"volume":[
			{"pvcRef":{"name":"data-web-1","namespace":"other"},"usedBytes":7,"availableBytes":3,"capacityBytes":10}]},
		{"podRef":{"name":"idle","namespace":"shop"}}]}`
	measured, every := map[string]grow.Usage{}, func(string) bool { return true }
	if err := grow.ReadSummary(strings.NewReader(text), "shop", every, measured); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]forecast.Usage{"data-web-0": {Used: 5, Capacity: 10}}, used(measured)); diff != "" {
		t.Error(diff)
	}
	if err := grow.ReadSummary(strings.NewReader("<html>"), "shop", every, measured); err == nil {
		t.Error("an HTML page is read as a summary")
	}
}

func TestBytesAreShownWithAUnit(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 3 << 29: "1.5 GiB", 1 << 40: "1 TiB"} {
		if got := text.Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// refusedPlan returns a plan with every kind of consequence, and with a reason to refuse it.
func refusedPlan() *forecast.Document {
	q, used := resource.MustParse, int64(3<<29)
	return &forecast.Document{Version: 1, Namespace: "shop", Set: "web", Request: "data=20Gi@fast", Verdict: forecast.Refused,
		Method: api.MethodCopy, Recreate: true, Templates: []api.TemplateTarget{{Name: "data", Size: q("20Gi"), Class: "fast"}},
		Conditions: []resize.Problem{{Reason: api.NotManaged, Message: "the set opts in"}},
		Refused:    []resize.Problem{{Reason: api.QuotaExceeded, Message: "no room\nat all"}},
		Claims: []forecast.Claim{
			{Name: "data-web-0", Method: api.MethodCopy, From: q("10Gi"), To: q("20Gi"), Class: "slow", NewClass: "fast", Volume: "pv-0",
				Used: &used, Capacity: 10 << 30,
				Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Users: []forecast.User{{Pod: "web-0"},
					{Pod: "debug", Foreign: true}}},
			{Name: "data-web-1", Method: api.MethodCopy, From: q("10Gi"), To: q("20Gi"), Class: "slow", NewClass: "fast", Volume: "pv-1",
				Capacity: 10 << 30, Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		},
		Strategy: api.StrategyRolling, Cutover: api.CutoverApprove, MemberCheck: "tcp:5432", Hooks: resources.Hooks,
		Members: []forecast.Member{
			{Ordinal: 1, NoFirstPass: "it has no pod"},
			{Ordinal: 0, Pod: "web-0", Node: "node-1", Ready: true, Primary: true},
		},
		Budgets: []forecast.Budget{{Name: "web", Allows: 1, Enforced: true}},
		Owner:   &forecast.Owner{APIVersion: "example.com/v1", Kind: "Database", Name: "main", Paused: true, How: "by annotation paused=true"},
		Copy:    forecast.Copy{Claims: 2, Measured: used, Unmeasured: 10 << 30},
		Stop: forecast.Stop{Members: 1, From: 10, To: 120, Observed: []string{"a start"}, Assumed: []string{"a rate"},
			Excluded: []string{"the rest"}},
		Quotas: []resize.QuotaRoom{{Quota: "team", Resource: "requests.storage", Hard: q("50Gi"), Used: q("20Gi"), Needs: q("40Gi")}},
		Checks: []forecast.Check{{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "a", Outcome: forecast.Accepted},
			{Verb: plan.VerbCreate, Resource: plan.Claims, Name: "b", Outcome: forecast.Accepted},
			{Verb: plan.VerbPatch, Resource: plan.Claims, Name: "c", Outcome: forecast.Accepted},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "a", Outcome: forecast.Unchecked, Message: "you may not"},
			{Verb: plan.VerbCreate, Resource: plan.Jobs, Name: "b", Outcome: forecast.Unchecked, Message: "you may not"}},
		Warnings: []string{"a warning"}, Suggestions: []string{"a suggestion"}, Assumed: []string{"a default"},
	}
}

func TestPlanShowsEveryConsequence(t *testing.T) {
	d := refusedPlan()
	var out bytes.Buffer
	if err := printPlan(&out, d); err != nil {
		t.Fatal(err)
	}
	err := refusal(d)
	if err == nil {
		t.Fatal("the plan of a refused resize is no error")
	}
	golden.Equal(t, out.String()+"error: "+err.Error()+"\n")
}

// TestPlanFitsTheTerminal: lines break between words, commands stay whole, and the columns that are needed least are left out.
func TestPlanFitsTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	file := golden.Open(t)
	for _, columns := range []int{80, 120} {
		seen := screen.New(t, columns, 80)
		if err := printPlan(seen.Terminal, refusedPlan()); err != nil {
			t.Fatal(err)
		}
		file.Entry(t, fmt.Sprint(columns)+" columns", seen.Close())
	}
}

// TestPlanWithoutWorkIsShort: where nothing would be done, and where the request is unreadable, the plan is a line or two.
func TestPlanWithoutWorkIsShort(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		document  forecast.Document
	}{
		{"nothing is requested", forecast.Document{Verdict: forecast.Nothing, Stop: forecast.Stop{None: true}, Assumed: []string{"a default"}}},
		{"every claim has the requested size", forecast.Document{Request: "data=10Gi", Verdict: forecast.Nothing, Stop: forecast.Stop{None: true},
			Assumed: []string{"a default"}}},
		{"the request is unreadable", forecast.Document{Request: "data=2Gb", Verdict: forecast.Refused, Method: api.MethodExpand,
			Refused: []resize.Problem{{Reason: api.RequestInvalid, Message: `size "2Gb" is not a quantity`}}}},
	} {
		var out bytes.Buffer
		row.document.Set = "web"
		if err := printPlan(&out, &row.document); err != nil {
			t.Fatal(err)
		}
		if refused := row.document.Verdict == forecast.Refused; (refusal(&row.document) != nil) != refused {
			t.Errorf("%s: %v", row.situation, refusal(&row.document))
		}
		file.Entry(t, row.situation, out.String())
	}
}

func TestPlanSaysWhetherTheSetIsRecreated(t *testing.T) {
	data := api.TemplateTarget{Name: "data", Size: resource.MustParse("20Gi"), Class: "fast",
		Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		document  forecast.Document
	}{
		{"the templates are as requested", forecast.Document{}},
		{"only other fields change", forecast.Document{Recreate: true, Fields: []string{"serviceName=db", "-logs"}}},
		{"templates and fields change, and claims are copied", forecast.Document{Recreate: true, Method: api.MethodCopy,
			Templates: []api.TemplateTarget{data}, Fields: []string{"data/labels/a=b"}}},
	} {
		file.Entry(t, row.situation, setWords(&row.document))
	}
}

func TestPlanSaysHowLongMembersStop(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		stop      forecast.Stop
	}{
		{"no member stops", forecast.Stop{None: true}},
		{"one member stops, and both estimates are equal", forecast.Stop{From: 10, To: 10, Members: 1}},
		{"three members stop one at a time", forecast.Stop{From: 1, To: 2, Members: 3}},
		{"three members stop together", forecast.Stop{From: 1, To: 2, Members: 3, Together: true}},
		{"no member runs, and claims are copied", forecast.Stop{None: true, From: 1, To: 2}},
	} {
		file.Entry(t, row.situation, stopWords(row.stop))
	}
}

// TestWarningsOfTheAPIServerAreShownOnce: warnings of proxies have other codes and are not shown.
func TestWarningsOfTheAPIServerAreShownOnce(t *testing.T) {
	w := &warnings{}
	for _, text := range []string{"would violate", "would violate", "is deprecated"} {
		w.HandleWarningHeader(299, "-", text)
	}
	w.HandleWarningHeader(199, "-", "of a proxy")
	golden.Equal(t, strings.Join(w.texts, "\n")+"\n")
}

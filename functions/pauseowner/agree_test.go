package pauseowner

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// rabbit is an owner whose claims get 128Mi by the resize. It asks for another size if it is not empty.
func rabbit(t *testing.T, size string) Owner {
	t.Helper()
	persistence := map[string]any{}
	if size != "" {
		persistence["storage"] = size
	}
	return owner(t, "rabbitmq.com/v1beta1", "RabbitmqCluster", map[string]any{"replicas": int64(3), "persistence": persistence})
}

// pausedFor is the record of the owner that the resize has paused.
func pausedFor(t *testing.T, o Owner) OwnerRecord {
	t.Helper()
	r := o.held(t, owners.ByPause, build.ID).recorded(owners.ByPause)
	r.Row, r.Link.Operation = o.Row, build.ID
	return r.created(time.Hour)
}

func finishedAgo(ago time.Duration) func(*api.Resize) {
	return func(r *api.Resize) { r.Finished = &metav1.Time{Time: build.Now.Add(-ago)} }
}

// TestPauseLastsUntilOwnerAgrees: after a resize, an owner with another size than the claims stays paused. Each situation with a pause
// has a twin in which it ends.
func TestPauseLastsUntilOwnerAgrees(t *testing.T) {
	succeeded := build.Operation(api.Succeeded, finishedAgo(time.Minute))
	other := build.Operation(api.Succeeded, func(r *api.Resize) { r.Operation = "0123456789ac" })
	failed := build.Operation(api.Failed, finishedAgo(time.Minute))
	early, late := build.Operation(api.Succeeded, finishedAgo(23*time.Hour)), build.Operation(api.Succeeded, finishedAgo(25*time.Hour))
	optedOut := []build.Option{build.Label(api.ManagedLabel, "false")}
	unknown := owner(t, "druid.apache.org/v1alpha1", "Druid", map[string]any{})
	policy := func(p api.OwnerPolicy) build.Option { return build.Annotation(api.OwnerPolicyAnnotation, string(p)) }
	for name, tc := range map[string]struct {
		record  *api.Resize
		owner   Owner
		options []build.Option
		want    api.Reason
	}{
		"it says the former size":         {succeeded, rabbit(t, "64Mi"), nil, api.OwnerStays},
		"it says the new size":            {succeeded, rabbit(t, "128Mi"), nil, api.OwnerResumed},
		"it says the new size in bytes":   {succeeded, rabbit(t, "134217728"), nil, api.OwnerResumed},
		"it says no size":                 {succeeded, rabbit(t, ""), nil, api.OwnerResumed},
		"the members have their volumes":  {build.Operation(api.Finishing), rabbit(t, "64Mi"), nil, api.OwnerStays},
		"the resize has failed":           {failed, rabbit(t, "64Mi"), nil, api.OwnerResumed},
		"users end the wait":              {succeeded, rabbit(t, "64Mi"), []build.Option{policy(api.OwnerIgnore)}, api.OwnerResumed},
		"users opt the set out":           {succeeded, rabbit(t, "64Mi"), optedOut, api.OwnerResumed},
		"users let Drydock change it":     {succeeded, rabbit(t, "64Mi"), []build.Option{policy(api.OwnerUpdate)}, api.OwnerResumed},
		"Drydock has changed it":          {succeeded, rabbit(t, "128Mi"), []build.Option{policy(api.OwnerUpdate)}, api.OwnerResumed},
		"a day is not over":               {early, rabbit(t, "64Mi"), nil, api.OwnerStays},
		"a day is over":                   {late, rabbit(t, "64Mi"), nil, api.OwnerResumed},
		"it is being deleted":             {succeeded, rabbit(t, "64Mi").deleting(), nil, api.OwnerResumed},
		"no row knows where its size is":  {succeeded, unknown, nil, api.OwnerResumed},
		"its members are still copied":    {build.Operation(api.Moving), rabbit(t, "128Mi"), nil, api.OwnerStays},
		"another resize has its record":   {other, rabbit(t, "64Mi"), nil, api.OwnerResumed},
		"only the class is different":     {withClass(succeeded, "gold"), rabbit(t, "128Mi"), nil, api.OwnerStays},
		"the class is not in the request": {withClass(succeeded, ""), rabbit(t, "128Mi"), nil, api.OwnerResumed},
	} {
		set := build.Set("web", append(tc.options, build.Status(tc.record))...)
		p := Decide(Input{Observed: build.World(set), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{pausedFor(t, tc.owner)}})
		if p.Reason != tc.want {
			t.Errorf("%s: the plan is %s, want %s", name, p, tc.want)
		}
	}
}

func withClass(r *api.Resize, class string) *api.Resize {
	r = r.Clone()
	r.Templates = []api.TemplateTarget{{Name: r.Templates[0].Name, Size: r.Templates[0].Size, Class: class}}
	return r
}

// TestUpdatedOwnerHasSizeOfClaims: one write changes the size and ends the pause, so its operator never sees the former size.
func TestUpdatedOwnerHasSizeOfClaims(t *testing.T) {
	record := pausedFor(t, rabbit(t, "64Mi"))
	set := build.Set("web", build.Status(build.Operation(api.Succeeded, finishedAgo(time.Minute))),
		build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerUpdate)))
	in := Input{Observed: build.World(set), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
	actions := Decide(in).Actions
	object := patched(t, record.Object, actions[:1]) // the other one deletes the record of the pause
	size, _, err := unstructured.NestedString(object.Object, "spec", "persistence", "storage")
	if err != nil || size != "128Mi" || object.GetAnnotations()[api.OwnerPausedAnnotation] != "" {
		t.Errorf("the owner has %q and is held by %q, %v", size, object.GetAnnotations()[api.OwnerPausedAnnotation], err)
	}
	in.Failures = plan.Failures{rejectedWrite(record.Resource, "main", errors.New("storage may not shrink"))}
	p := Decide(in)
	if p.Reason != api.OwnerStays || !strings.Contains(p.String(), "storage may not shrink") {
		t.Errorf("a webhook rejects the size. The plan must quote it: %s", p)
	}
}

// TestDisagreementIsReportedOnce: the record says why the owner stays paused, and what to do.
func TestDisagreementIsReportedOnce(t *testing.T) {
	resize := build.Operation(api.Succeeded, finishedAgo(time.Minute))
	record := pausedFor(t, rabbit(t, "64Mi"))
	in := Input{Observed: build.World(build.Set("web", build.Status(resize))), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
	p := Decide(in)
	for _, word := range []string{"the data is safe", "RabbitmqCluster main", "spec.persistence.storage is 64Mi, and the claims have 128Mi",
		"kubectl drydock resize -n shop sts/web --update-owner", "drydock.dev/owner-policy=ignore"} {
		if !strings.Contains(p.String(), word) {
			t.Errorf("it does not say %q: %s", word, p)
		}
	}
	reported := resize.Clone()
	reported.OwnerProblem = in.disagreement(record, record.Row.Differences(record.Object, "web", resize.Templates))
	in.Set = build.Set("web", build.Status(reported))
	if again := Decide(in); again.Kind != plan.KindNoop {
		t.Errorf("the next tick writes again: %s", again)
	}
}

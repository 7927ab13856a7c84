package pauseowner

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// unpausedRabbit is a RabbitmqCluster. Its operator removes labels from its StatefulSets, and copies its labels and annotations to them.
func unpausedRabbit(labels, annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("rabbitmq.com/v1beta1")
	object.SetKind("RabbitmqCluster")
	object.SetNamespace(build.Namespace)
	object.SetName("mq")
	object.SetUID("uid-mq")
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return object
}

var optedOut = build.Label(api.ManagedLabel, "")

// TestMetadataOfSetIsMended: what an operator did to the label and the annotations of a set without operations.
func TestMetadataOfSetIsMended(t *testing.T) {
	optedIn := map[string]string{api.ManagedLabel: "true"}
	paused := map[string]string{api.OwnerPausedAnnotation: "{}"}
	copied := build.Annotation(api.OwnerPausedAnnotation, "{}")
	observed := func(resource *unstructured.Unstructured, options ...build.Option) Input {
		set := build.Set("web", append([]build.Option{controlledBy(resource)}, options...)...)
		return observeSet(t, build.Lists{"statefulsets": objectList{set}, "rabbitmqclusters": objectList{resource},
			"prometheuses": objectList{resource}})
	}
	prometheus := unpausedRabbit(nil, nil)
	prometheus.SetAPIVersion("monitoring.coreos.com/v1")
	prometheus.SetKind("Prometheus")
	gone := unpausedRabbit(nil, nil)
	gone.SetUID("uid-of-a-former-one")
	another := build.Edit(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].UID = "uid-mq" })
	sleeping := build.WithSleep(build.Sleep(api.Asleep))
	check(t, map[string]Input{
		"the label is lost":                                     observed(unpausedRabbit(nil, nil), optedOut),
		"the label is lost, and the resource has it":            observed(unpausedRabbit(optedIn, nil), optedOut),
		"the label is lost, and the resource is gone":           observed(gone, optedOut, another),
		"the label is lost, and the operator keeps labels":      observed(prometheus, optedOut),
		"the set is labelled, and the resource is not":          observed(unpausedRabbit(nil, nil)),
		"the record of a pause was copied":                      observed(unpausedRabbit(nil, nil), copied),
		"it was copied, and the resource still has it":          observed(unpausedRabbit(nil, paused), copied),
		"it was copied, and the resource is gone":               observed(gone, copied, another),
		"it was copied to a set that has opted out":             observed(unpausedRabbit(optedIn, nil), copied, optedOut),
		"it was copied to a set of an operator that keeps them": observed(prometheus, copied),
		"it was copied, and the set sleeps":                     observed(unpausedRabbit(nil, nil), copied, sleeping),
	})
}

// TestUnreadableControllerKeepsCopy: as long as the resource may have the record, its operator would copy it again.
func TestUnreadableControllerKeepsCopy(t *testing.T) {
	set := build.Set("web", controlledBy(unpausedRabbit(nil, nil)), build.Annotation(api.OwnerPausedAnnotation, "{}"))
	in := Input{Observed: build.World(set),
		Controller: &Owner{Problem: "it is forbidden"}}
	if p := Decide(in); p.Kind == plan.KindDo {
		t.Error(p)
	}
	in.Controller.Problem = ""
	if p := Decide(in); p.Kind != plan.KindDo || p.Reason != api.OwnerResumed {
		t.Error(p)
	}
}

// TestRequestOnOwnerBeginsNothing: prometheus-operator copies the request to each set that it creates again with the old size.
func TestRequestOnOwnerBeginsNothing(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(0))
	planned.Deadline = operation.Moment(build.Now.Add(build.Settings().PlanTimeout))
	in := func(request string) Input {
		owner := redisOwner(map[string]string{api.ResizeAnnotation: request})
		return Input{Observed: build.World(build.Set("web", build.Status(planned), build.ControlledBy(kind, "main"))), Settings: build.Settings(),
			Owners: ownersOf(owner)}
	}
	check(t, map[string]Input{
		"the request is on the owner, too": in(planned.Request),
		"the owner has another request":    in("data=1Ti"),
	})
}

// TestOwnerConcerned: which changes of a set without operations concern pause-owner.
func TestOwnerConcerned(t *testing.T) {
	copied := build.Annotation(api.OwnerPausedAnnotation, "{}")
	owned := controlledBy(unpausedRabbit(nil, nil))
	deleting := build.Edit(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: build.Now} })
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		gone bool
		want bool
	}{
		"a set of an operator":               {build.Set("web", owned), false, false},
		"it is gone, or has lost its label":  {build.Set("web", owned), true, true},
		"it is deleted":                      {build.Set("web", owned, deleting), true, false},
		"no operator controls it":            {build.Set("web", copied), true, false},
		"it has a copy":                      {build.Set("web", owned, copied), false, true},
		"it has a copy, and has opted out":   {build.Set("web", owned, copied, optedOut), false, false},
		"it has a copy, and sleeps":          {build.Set("web", owned, copied, build.WithSleep(build.Sleep(api.Asleep))), false, false},
		"it has a copy, and its sleep ended": {build.Set("web", owned, copied, build.WithSleep(build.Sleep(api.Succeeded))), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			change := operation.Change{Set: row.set, Records: operation.Of(row.set), Now: build.Now, Gone: row.gone}
			if got := len(operation.OwnerConcerned(change)) > 0; got != row.want {
				t.Errorf("concerned: %v", got)
			}
		})
	}
}

package build

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// Guard returns the decision of the function. It checks the rules for every decision: it is a pure function that leaves its input
// unchanged, each write carries the UID and the version of an object of the world, or of the others, each stored record is a valid next
// step of the function according to operation.States, and no sentence of a record or an Event begins with "Or".
func Guard(t testing.TB, by api.Function, o *world.Observed, decide func() plan.Plan, others ...metav1.Object) plan.Plan {
	t.Helper()
	before := encode(o)
	p := decide()
	if encode(o) != before {
		t.Errorf("the decision changed its input, from\n%s\nto\n%s", before, encode(o))
	}
	if again := decide(); again.String() != p.String() {
		t.Errorf("the same input leads to another plan:\n%s", again)
	}
	for _, a := range p.Actions {
		if problem := unguarded(o, others, a); problem != "" {
			t.Errorf("%s: %s", a, problem)
		}
		if problem := orphanedSentence(a); problem != "" {
			t.Errorf("%s: %s", a, problem)
		}
		if set, ok := find(o, others, a).(*appsv1.StatefulSet); ok && a.Verb == plan.VerbPatch {
			if err := CheckStep(by, set, a); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
	return p
}

func encode(o *world.Observed) string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// beginsWithOr matches a sentence that continues another one. A user may see it without that one.
var beginsWithOr = regexp.MustCompile(`(^|[.:] |")Or `)

// orphanedSentence returns the problem of a sentence in the action's Event or record that begins with "Or", or an empty string.
func orphanedSentence(a plan.Action) string {
	stored, err := json.Marshal(a.Ops)
	if err != nil {
		panic(err)
	}
	for _, text := range []string{a.Note.Message, string(stored)} {
		if beginsWithOr.MatchString(text) {
			return `a sentence begins with "Or". Say the whole instruction in it`
		}
	}
	return ""
}

// unguarded returns the precondition that the action lacks, or an empty string.
func unguarded(o *world.Observed, others []metav1.Object, a plan.Action) string {
	if a.Verb == plan.VerbCreate || a.Verb == plan.VerbTry {
		if m := a.Object.(metav1.Object); m.GetUID() != "" || m.GetResourceVersion() != "" {
			return "a new object has no UID or resourceVersion"
		}
		return ""
	}
	if a.Verb == plan.VerbEvent {
		return ""
	}
	seen := find(o, others, a)
	switch {
	case a.Verb == plan.VerbCheck && a.UID == "":
		if seen != nil {
			return "the object was observed"
		}
	case seen == nil:
		return "the object was not observed"
	case a.Verb == plan.VerbEvict || a.Resource == plan.Pods && a.Verb == plan.VerbDelete && a.ResourceVersion == "":
		// The pod's status may have changed by then, so the UID is enough.
		if a.UID != seen.GetUID() {
			return fmt.Sprintf("precondition %s, want %s", a.UID, seen.GetUID())
		}
	case (a.Verb == plan.VerbDelete || a.Verb == plan.VerbCheck) &&
		(a.UID != seen.GetUID() || a.ResourceVersion != seen.GetResourceVersion()):
		return fmt.Sprintf("precondition %s %s, want %s %s", a.UID, a.ResourceVersion, seen.GetUID(), seen.GetResourceVersion())
	case a.Verb == plan.VerbPatch && isDataPatch(a):
		if a.Ops[0].Value != seen.GetUID() {
			return fmt.Sprintf("precondition %v, want %s", a.Ops[0].Value, seen.GetUID())
		}
	case a.Verb == plan.VerbPatch &&
		a.Ops[0] != plan.Op{Op: "replace", Path: "/metadata/resourceVersion", Value: seen.GetResourceVersion()}:
		return fmt.Sprintf("the first operation is %v, not the precondition", a.Ops[0])
	}
	return ""
}

// isDataPatch reports whether the patch tests each key of a ConfigMap before it changes it, see plan.SetData.
func isDataPatch(a plan.Action) bool {
	if a.Resource != plan.ConfigMaps || a.Ops[0].Op != "test" || a.Ops[0].Path != "/metadata/uid" || len(a.Ops)%2 == 0 {
		return false
	}
	for i := 1; i < len(a.Ops); i += 2 {
		if a.Ops[i].Op != "test" || a.Ops[i+1].Path != a.Ops[i].Path {
			return false
		}
	}
	return true
}

func find(o *world.Observed, others []metav1.Object, a plan.Action) metav1.Object {
	var all []metav1.Object
	switch a.Resource {
	case plan.StatefulSets:
		if o.Set != nil {
			all = append(all, o.Set)
		}
	case plan.Claims:
		all = objects(o.Claims)
	case plan.Pods:
		all = objects(o.Pods)
	case plan.Jobs:
		all = objects(o.Jobs)
	case plan.ControllerRevisions:
		all = objects(o.Journals)
	case plan.Volumes:
		if v := o.Volume(a.Name); v != nil {
			all = append(all, v)
		}
	}
	for _, object := range append(all, others...) {
		if custom, is := object.(*unstructured.Unstructured); is && !isOf(custom, a.Resource) {
			continue
		}
		_, autoscaler := object.(*autoscalingv2.HorizontalPodAutoscaler) // it has the name of its target
		if autoscaler == (a.Resource == plan.Autoscalers) && object.GetName() == a.Name && object.GetNamespace() == a.Namespace {
			return object
		}
	}
	return nil
}

// isOf reports whether the resource is in the group and version of the object.
func isOf(object *unstructured.Unstructured, resource plan.Resource) bool {
	gvr, custom := resource.Custom()
	return custom && gvr.GroupVersion() == object.GroupVersionKind().GroupVersion()
}

func objects[T metav1.Object](list []T) []metav1.Object {
	var all []metav1.Object
	for _, o := range list {
		all = append(all, o)
	}
	return all
}

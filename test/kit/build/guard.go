package build

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
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

// CheckStep returns an error if the patch of the function stores a record that is no valid next step of the set's present record, according
// to operation.States and operation.MemberStates. A record of another set, or an unreadable record, counts as no record.
func CheckStep(by api.Function, set *appsv1.StatefulSet, patch plan.Action) error {
	records := operation.Of(set)
	for key, before := range map[string]operation.Record{
		api.StatusAnnotation: records.Resize, api.SleepAnnotation: records.Sleep, api.CleanupAnnotation: records.Cleanup,
		api.ScaleAnnotation: records.Scale,
	} {
		for _, op := range patch.Ops {
			text, written := op.Value.(string)
			if !written || op.Path != "/metadata/annotations/"+strings.ReplaceAll(key, "/", "~1") {
				continue
			}
			after := &api.Header{}
			if err := json.Unmarshal([]byte(text), after); err != nil {
				return err
			}
			if err := checkStep(by, headOf(before), after); err != nil {
				return err
			}
			if err := wrongMembers(records.Resize, key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongMembers returns an error if a member of the resize makes an invalid step.
func wrongMembers(before *api.Resize, key, text string) error {
	if key != api.StatusAnnotation {
		return nil
	}
	after := &api.Resize{}
	if err := json.Unmarshal([]byte(text), after); err != nil {
		return err
	}
	return checkMemberSteps(before, after)
}

// headOf returns the header of the record, or nil.
func headOf(record operation.Record) *api.Header {
	switch r := record.(type) {
	case *api.Resize:
		if r != nil {
			return &r.Header
		}
	case *api.Sleep:
		if r != nil {
			return &r.Header
		}
	case *api.Cleanup:
		if r != nil {
			return &r.Header
		}
	case *api.Scale:
		if r != nil {
			return &r.Header
		}
	}
	return nil
}

// checkStep returns an error if operation.States does not allow the function the step from one record of a set to the next.
// Before is nil without a former record.
func checkStep(by api.Function, before, after *api.Header) error {
	if err := checkPhases(before, after); err != nil {
		return err
	}
	former := api.Phase("")
	if before != nil && before.Operation == after.Operation {
		former = before.Phase
	}
	if !operation.MayWrite(by, after.Kind, former, after.Phase) {
		return fmt.Errorf("%s may not change a %s from %q to %s", by, after.Kind, former, after.Phase)
	}
	return nil
}

// checkPhases returns an error if no function may take the step.
func checkPhases(before, after *api.Header) error {
	state := operation.Find(after.Kind, after.Phase)
	switch {
	case state == nil:
		return fmt.Errorf("a %s has no phase %q", after.Kind, after.Phase)
	case before == nil || before.Operation != after.Operation:
		if before != nil && !before.Phase.Terminal() {
			return fmt.Errorf("%s %s cannot begin while %s %s is %s", after.Kind, after.Operation, before.Kind, before.Operation, before.Phase)
		}
		if !state.First {
			return fmt.Errorf("a %s cannot begin in phase %s", after.Kind, after.Phase)
		}
		return nil
	case before.Kind != after.Kind:
		return fmt.Errorf("%s %s cannot become a %s", before.Kind, before.Operation, after.Kind)
	case before.Phase == after.Phase:
		return nil
	}
	if from := operation.Find(before.Kind, before.Phase); from == nil || !slices.Contains(from.Next, after.Phase) {
		return fmt.Errorf("a %s cannot change from %s to %s", after.Kind, before.Phase, after.Phase)
	}
	return nil
}

// checkMemberSteps returns an error if operation.MemberStates does not allow the step of a member. When an operation fails, each
// member becomes Kept, or Moved if it is on its new volumes.
func checkMemberSteps(before, after *api.Resize) error {
	if before == nil || before.Operation != after.Operation {
		return nil
	}
	for i := range after.Members {
		if i >= len(before.Members) {
			break
		}
		former, present := &before.Members[i], &after.Members[i] // the order of members does not change
		if former.Ordinal != present.Ordinal || former.Phase == present.Phase {
			continue
		}
		next := []api.MemberPhase{api.MemberKept, api.MemberMoved}
		if after.Phase == api.Moving {
			next = nextMemberPhases(former.Phase)
		}
		if !slices.Contains(next, present.Phase) {
			return fmt.Errorf("member %d cannot change from %s to %s while the operation is %s",
				present.Ordinal, former.Phase, present.Phase, after.Phase)
		}
	}
	return nil
}

func nextMemberPhases(phase api.MemberPhase) []api.MemberPhase {
	i := slices.IndexFunc(operation.MemberStates, func(s operation.MemberState) bool { return s.Phase == phase })
	if i < 0 {
		return nil
	}
	return operation.MemberStates[i].Next
}

package pauseowner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// check compares the decisions with the golden file of the test, in the order of the situations.
func check(t *testing.T, situations map[string]Input) {
	t.Helper()
	var cases []build.Case
	for _, situation := range slices.Sorted(maps.Keys(situations)) {
		in := situations[situation]
		cases = append(cases, build.Case{Sentence: situation, By: api.PauseOwner, World: in.Observed, Facts: otherInputs(in),
			Decide: func() plan.Plan { return Decide(in) }, Others: observedOthers(in)})
	}
	build.Golden(t, cases)
}

// otherInputs renders the parts of the input besides the set and its journals.
func otherInputs(in Input) []string {
	var lines []string
	if in.Set != nil {
		lines = append(lines, sleepOf(in.Set)...)
	}
	for _, o := range in.Owners {
		lines = append(lines, line("owner "+o.Ref.Kind+" "+o.Ref.Name, traitsOfOwner(o)))
	}
	if in.Controller != nil {
		traits := []string{"gone"}
		if in.Controller.Object != nil {
			traits = append([]string{fmt.Sprintf("labels: %v", in.Controller.Object.GetLabels())}, traitsOfObject(in.Controller.Object.Object)...)
		}
		lines = append(lines, line("controller "+in.Controller.Ref.Kind+" "+in.Controller.Ref.Name, traits))
	}
	for _, s := range in.Siblings {
		lines = append(lines, "sibling "+build.Situation(build.World(s))[0])
		lines = append(lines, sleepOf(s)...)
	}
	for _, r := range in.OwnerRecords {
		lines = append(lines, line("record of "+r.Link.Operation, traitsOfRecord(r)))
	}
	for _, turn := range in.Turns.All() {
		state := "waits"
		if turn.Taken() {
			state = "has its turn"
		}
		lines = append(lines, fmt.Sprintf("operation %s of %s/%s: %s, movers %d", turn.Operation, turn.Namespace, turn.Set, state, turn.Movers))
	}
	if in.Rejected != nil {
		lines = append(lines, "denied: "+in.Rejected.Error())
	}
	return lines
}

// sleepOf renders the record of the set's sleep, if it has one.
func sleepOf(set *appsv1.StatefulSet) []string {
	sleep, err := api.LoadSleep(set)
	switch {
	case err != nil:
		return []string{"sleep of " + set.Name + ": unreadable"}
	case sleep == nil:
		return nil
	}
	return []string{"sleep of " + set.Name + ": " + build.Words(sleep)}
}

func line(name string, traits []string) string {
	return name + ": " + strings.Join(traits, ", ")
}

// traitsOfOwner renders why the owner can or cannot be paused.
func traitsOfOwner(o Owner) []string {
	traits := []string{"not allowed"}
	if o.Allowed {
		traits[0] = "allowed"
	}
	if o.Problem != "" {
		traits = append(traits, "problem: "+o.Problem)
	}
	if o.Object == nil {
		return append(traits, "gone")
	}
	return append(traits, traitsOfObject(o.Object.Object)...)
}

// traitsOfRecord renders a record of a paused owner.
func traitsOfRecord(r OwnerRecord) []string {
	if r.Err != nil {
		return []string{"unreadable: " + r.Err.Error()}
	}
	traits := []string{r.Owner.Kind + " " + r.Owner.Name}
	if r.Owner.Stopped {
		traits = append(traits, "stopped")
	}
	if r.Row.Resume != "" {
		traits = append(traits, "resumed when "+string(r.Row.Resume))
	}
	if r.Denied != nil {
		traits = append(traits, "denied: "+r.Denied.Error())
	}
	if r.Object == nil {
		return append(traits, "gone")
	}
	return append(traits, traitsOfObject(r.Object.Object)...)
}

// traitsOfObject renders the fields of its custom resource that an operator reads.
func traitsOfObject(object map[string]any) []string {
	var traits []string
	metadata, _ := object["metadata"].(map[string]any)
	if metadata["deletionTimestamp"] != nil {
		traits = append(traits, "deleting")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		traits = append(traits, fmt.Sprintf("%s: %v", key, annotations[key]))
	}
	if spec, _ := object["spec"].(map[string]any); len(spec) > 0 {
		traits = append(traits, fmt.Sprintf("spec: %v", spec))
	}
	return traits
}

// rejectedWrite is the failure of a patch of the object, which the API server has permanently rejected.
func rejectedWrite(resource plan.Resource, name string, err error) plan.Failure {
	return plan.Failure{Action: plan.Action{Verb: plan.VerbPatch, Resource: resource, Name: name}, Err: fault.Permanent(err)}
}

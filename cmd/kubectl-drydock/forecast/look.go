package forecast

import (
	"fmt"
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// Input has the facts for a forecast.
type Input struct {
	// Input has the facts that detect-resize would judge. Its Cluster is read.
	resize.Input
	Ask Ask
	// Budgets are the PodDisruptionBudgets of the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Ask is a request in place of the set's annotations. Where a field is empty, the annotation counts.
type Ask struct {
	Request, Method, Strategy string
}

// Forecast knows the consequences of a resize, as far as they can be known.
type Forecast struct {
	in      Input // with the supposed set
	wish    *resize.Wish
	record  *api.Resize // the first record of the resize; nil if none would begin
	before  []resize.Problem
	refused []resize.Problem

	// Storage is how much room storage says to have. It is not judged where it is empty.
	Storage Storage
}

// Look judges the set as if it had opted in, and had the annotations of the request.
func Look(in Input) *Forecast {
	f := &Forecast{in: in}
	f.suppose()
	if !f.begins() {
		return f
	}
	wish := resize.Read(f.in.Input)
	if wish.Empty() {
		f.before = nil // there is nothing to wait for
		return f
	}
	f.wish, f.record = wish, wish.Operation(f.in.Input)
	f.refused = wish.Problems
	for _, p := range resize.Unsettled(f.in.Input, wish) {
		if p.Settles() {
			f.before = append(f.before, p)
		} else {
			f.refused = append(f.refused, p)
		}
	}
	f.refused = append(f.refused, resize.Preflight(f.in.Input, wish)...)
	return f
}

// NamesAttributes reports whether the request would name a VolumeAttributesClass, so that the cluster's have to be read for a forecast.
func NamesAttributes(in Input) bool {
	f := &Forecast{in: in}
	f.suppose()
	return f.begins() && resize.Read(f.in.Input).NamesAttributes()
}

// suppose opts the set in and adds the request, in memory.
func (f *Forecast) suppose() {
	set, observed := f.in.Set.DeepCopy(), *f.in.Observed
	observed.Set, f.in.Observed = set, &observed
	set.Labels, set.Annotations = filled(set.Labels), filled(set.Annotations)
	if !statefulset.Managed(set) {
		f.wait(api.NotManaged, "the set opts in: kubectl -n %s label sts %s %s=true", set.Namespace, set.Name, api.ManagedLabel)
		set.Labels[api.ManagedLabel] = "true"
	}
	for _, a := range []struct{ key, value string }{
		{api.ResizeMethodAnnotation, f.in.Ask.Method}, {api.StrategyAnnotation, f.in.Ask.Strategy}, {api.ResizeAnnotation, f.in.Ask.Request},
	} {
		if a.value == "" || set.Annotations[a.key] == a.value {
			continue
		}
		f.wait(api.NotRequested, "you ask for it: kubectl -n %s annotate --overwrite sts %s '%s=%s'", set.Namespace, set.Name, a.key,
			a.value)
		set.Annotations[a.key] = a.value
	}
}

func filled(all map[string]string) map[string]string {
	if all == nil {
		return map[string]string{}
	}
	return maps.Clone(all)
}

func (f *Forecast) wait(reason api.Reason, format string, args ...any) {
	f.before = append(f.before, resize.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// begins reports whether a forecast can be made: a resize could begin now, or after the end of something that does not change its work.
func (f *Forecast) begins() bool {
	set := f.in.Set
	reason, err := resize.Rests(f.in.Input)
	record, _ := f.in.Record() // err is the same
	switch {
	case reason == "":
		return true
	case reason == api.NotRequested:
		f.before = nil
		return false
	case reason == api.RequestInvalid:
		f.wait(reason, "the request is shorter: %v", err)
		return false
	case err != nil:
		f.wait(reason, "the annotation %s is mended or removed: %v", api.StatusAnnotation, err)
		return false
	case reason == api.SetGone:
		f.wait(reason, "the set, which is being deleted, is created again")
		return false
	case record.Active():
		f.wait(reason, "operation %s (%s) ends, which is %s", record.Operation, record.Request, record.Phase)
		return false
	case reason == api.AlreadyRefused:
		f.wait(reason, "you ask again: the same request is %s (%s). kubectl drydock -n %s retry sts/%s", record.Phase, record.Reason,
			set.Namespace, set.Name)
		f.in.Retry = &resize.Retry{}
		return true
	}
	f.wait(reason, "the set's sleep or cleanup ends; what follows is judged as the set is now")
	return true
}

// moves are the claims that would be copied.
func (f *Forecast) moves() []*api.Move {
	if f.record == nil {
		return nil
	}
	return f.record.Moves()
}

// Nodes are those whose kubelets know how much is to be copied.
func (f *Forecast) Nodes() []string {
	var nodes []string
	for _, move := range f.moves() {
		for _, pod := range f.in.Users(move.Claim) {
			if pod.Spec.NodeName != "" {
				nodes = append(nodes, pod.Spec.NodeName)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

package forecast

import (
	"fmt"
	"maps"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
)

// Input is what a forecast is made from.
type Input struct {
	// Input is what detect-resize would judge. Its Cluster is read.
	resize.Input
	Ask Ask
}

// Ask is what somebody would ask for, instead of what the set's annotations say. Empty is what they say.
type Ask struct {
	Request, Method string
}

// Forecast is what would happen, as far as it is known.
type Forecast struct {
	in      Input // with the set as it would be
	wish    *resize.Wish
	status  *api.Resize // with which the resize would begin; nil if none would
	before  []resize.Problem
	refused []resize.Problem
}

// Look judges the set as it would be if it had opted in, and if somebody asked.
func Look(in Input) *Forecast {
	f := &Forecast{in: in}
	f.suppose()
	if !f.begins() {
		return f
	}
	wish := resize.Read(f.in.Input)
	if wish.Empty() {
		f.before = nil // nothing is waited for
		return f
	}
	f.wish, f.status = wish, wish.Operation(f.in.Input)
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

// suppose changes the set, in memory, to one that has opted in and asks.
func (f *Forecast) suppose() {
	set, observed := f.in.Set.DeepCopy(), *f.in.Observed
	observed.Set, f.in.Observed = set, &observed
	set.Labels, set.Annotations = filled(set.Labels), filled(set.Annotations)
	if !sts.Managed(set) {
		f.wait(api.NotManaged, "the set opts in: kubectl -n %s label sts %s %s=true", set.Namespace, set.Name, api.ManagedLabel)
		set.Labels[api.ManagedLabel] = "true"
	}
	for _, a := range []struct{ key, value string }{
		{api.ResizeMethodAnnotation, f.in.Ask.Method}, {api.ResizeAnnotation, f.in.Ask.Request},
	} {
		if a.value == "" || set.Annotations[a.key] == a.value {
			continue
		}
		f.wait(api.NotRequested, "somebody asks for it: kubectl -n %s annotate --overwrite sts %s '%s=%s'", set.Namespace, set.Name, a.key, a.value)
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

// begins reports whether there is a point in going on: a resize could begin now, or when something else has ended that does not
// change what there is to do.
func (f *Forecast) begins() bool {
	set := f.in.Set
	reason, err := resize.Rests(f.in.Input)
	status, _ := f.in.Status() // err is the same
	switch {
	case reason == "":
		return true
	case reason == api.NotRequested:
		f.before = nil
		return false
	case err != nil:
		f.wait(reason, "somebody mends or removes the annotation %s: %v", api.StatusAnnotation, err)
		return false
	case reason == api.SetGone:
		f.wait(reason, "the set, which is being deleted, is created again")
		return false
	case status.Active():
		f.wait(reason, "operation %s (%s) ends, which is %s", status.Operation, status.Request, status.Phase)
		return false
	case status.Held():
		f.wait(reason, "operation %s (%s) ends: it has failed, and holds the set at zero. This goes on with it: kubectl drydock -n %s retry sts/%s",
			status.Operation, status.Request, set.Namespace, set.Name)
		return false
	case reason == api.AlreadyRefused:
		f.wait(reason, "somebody asks again: the same request is %s (%s). kubectl drydock -n %s retry sts/%s", status.Phase, status.Reason, set.Namespace, set.Name)
		f.in.Retry = &resize.Retry{}
		return true
	}
	f.wait(reason, "the set's sleep or cleanup ends; what follows is judged as the set is now")
	return true
}

// copied are the claims that would be copied.
func (f *Forecast) copied() []*api.ClaimStatus {
	var copied []*api.ClaimStatus
	if f.status == nil {
		return nil
	}
	for i := range f.status.Claims {
		if f.status.Claims[i].Method != api.MethodExpand {
			copied = append(copied, &f.status.Claims[i])
		}
	}
	return copied
}

// Nodes are those whose kubelets know how much is to be copied.
func (f *Forecast) Nodes() []string {
	var nodes []string
	for _, part := range f.copied() {
		for _, pod := range f.in.Users(part.Name) {
			if pod.Spec.NodeName != "" {
				nodes = append(nodes, pod.Spec.NodeName)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// Document returns the whole forecast. It combines the judgement, the capacity of the storage, the measured usage by claim, and the
// answers to the dry runs.
func (f *Forecast) Document(measured map[string]Usage, checks []Check) *Document {
	request, _ := api.RequestOf(f.in.Set)
	d := &Document{Version: Version, Namespace: f.in.Set.Namespace, Set: f.in.Set.Name, Request: request,
		Conditions: f.before, Refused: slices.Clone(f.refused), Checks: checks, Stop: Stop{None: true}}
	if f.record != nil {
		d.Request = f.record.Purpose()
		d.Method, d.Templates, d.Recreate = api.MethodExpand, f.record.Templates, f.record.ReplaceSet
		d.Fields = api.Words(f.record.Fields)
		d.Owner, d.Quotas = f.owner(), resize.QuotaRooms(f.in.Input, f.request)
		d.Claims = f.claims(measured)
		d.Copy = total(d.Claims)
		if len(f.record.Members) > 0 {
			d.Method = api.MethodCopy
			if f.record.GrowsWhileStopped() {
				d.Method = api.MethodExpandOffline
			}
			f.addStops(d)
		} else {
			d.Stop = f.noStop(d.Claims)
		}
		f.compareUsage(d)
		f.compareCapacity(d)
	}
	if f.in.Controller != nil && statefulset.Managed(f.live) {
		if advice := f.in.Registry.OptInAdvice(f.live, f.in.Controller); advice != "" {
			d.Warnings = append(d.Warnings, advice)
		}
	}
	d.Refused = append(d.Refused, denials(checks)...)
	d.Verdict = f.verdict(d)
	return d
}

func (f *Forecast) verdict(d *Document) Verdict {
	switch {
	case len(d.Refused) > 0:
		return Refused
	case len(d.Conditions) > 0:
		return Waits
	case f.record == nil:
		return Nothing
	}
	return Proceeds
}

// claims returns the forecasts of the claims that would grow or be copied, sorted by name.
func (f *Forecast) claims(measured map[string]Usage) []Claim {
	var all []Claim
	for _, e := range f.record.Expansions {
		if move := f.record.Move(e.Claim); move != nil {
			continue // it is among the moves, since it grows while its member is stopped
		}
		all = append(all, f.claim(e.Claim, Claim{Template: e.Template, Method: api.MethodExpand, From: e.From, To: e.To, Volume: e.Volume,
			NewAttributes: e.Attributes}))
	}
	for _, m := range f.moves() {
		c := f.claim(m.Claim, Claim{Template: m.Template, Method: methodOf(m), From: m.From, To: m.To, Volume: m.OldVolume,
			NewClass: m.Class, NewModes: m.Modes, NewAttributes: f.newAttributes(m)})
		if usage, known := measured[m.Claim]; known && !statefulset.IsBlock(f.in.Claim(m.Claim)) && usage.isOfClaim(c.Capacity) {
			c.Used = &usage.Used
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Claim) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func methodOf(m *api.Move) api.Method {
	if m.InPlace {
		return api.MethodExpandOffline
	}
	return api.MethodCopy
}

// newAttributes returns the VolumeAttributesClass that the claim of a member gets: with its new volume or, if it keeps its volume, by an
// expansion before; nil if it keeps the present one.
func (f *Forecast) newAttributes(m *api.Move) *string {
	for i := range f.record.Expansions {
		if e := &f.record.Expansions[i]; e.Claim == m.Claim {
			return e.Attributes
		}
	}
	return m.Attributes
}

// claim completes the forecast of a claim with facts of the live claim.
func (f *Forecast) claim(name string, c Claim) Claim {
	live := f.in.Claim(name)
	c.Name, c.Class, c.Modes, c.Capacity = name, statefulset.ClassOf(live), live.Spec.AccessModes, f.capacity(c.From, c.Volume)
	c.Attributes = statefulset.AttributesOf(live)
	for _, pod := range f.in.Users(name) {
		c.Users = append(c.Users, User{Pod: pod.Name, Node: pod.Spec.NodeName, Foreign: !statefulset.IsPodOf(pod, f.in.Set)})
	}
	return c
}

// owner returns the controller of the set, and whether and how it would be paused; nil if the set has none.
func (f *Forecast) owner() *Owner {
	ref := statefulset.Controller(f.in.Set)
	if ref == nil {
		return nil
	}
	o := &Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	gv, _ := schema.ParseGroupVersion(ref.APIVersion) // an unreadable version is in no row
	row, known := f.in.Registry.Find(gv.Group, ref.Kind)
	switch {
	case !f.request.ConcernsOwner():
		o.How = "it is not paused, because it would undo no change of this resize"
	case api.OwnerPolicy(f.in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore:
		o.How = fmt.Sprintf("it is not paused, because of %s=%s", api.OwnerPolicyAnnotation, api.OwnerIgnore)
	case !known:
		o.How = owners.UnknownKindMessage(gv.Group, ref.Kind)
	case row.PausedThroughController:
		o.Paused, o.How = true, "through the resource that controls it"
	case !row.Supports(owners.ByPause):
		o.How = "it can be stopped for a sleep, but not paused for a resize: pause-owner would refuse"
	default:
		o.Paused, o.How = true, "by "+settings(row)
		if !f.in.Cluster.OwnerConsent.AllowsPause() {
			o.How += ". The namespace must allow it first: " + owners.ConsentCommand(f.in.Set.Namespace)
		}
		o.Then = f.afterwards(row, o)
	}
	return o
}

// afterwards says what ends the pause of an owner that names the size of the claims. It is empty if Drydock does not know where.
func (f *Forecast) afterwards(row owners.Row, o *Owner) string {
	if f.record == nil {
		return ""
	}
	var fields []string
	for _, t := range f.record.Templates {
		for _, path := range row.SizePaths(t.Name) {
			fields = append(fields, fmt.Sprintf("%s is %s", path, &t.Size))
		}
	}
	updates := api.OwnerPolicy(f.in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerUpdate
	switch {
	case len(fields) == 0:
		return ""
	case updates && f.in.Cluster.OwnerConsent.AllowsUpdate():
		return fmt.Sprintf("Drydock then changes it: %s (%s=%s)", strings.Join(fields, ", "), api.OwnerPolicyAnnotation, api.OwnerUpdate)
	case updates:
		return fmt.Sprintf("the pause ends when %s in %s %s. The namespace does not let Drydock write it: %s", strings.Join(fields, ", "),
			o.Kind, o.Name, owners.UpdateConsentCommand(f.in.Set.Namespace))
	}
	return fmt.Sprintf("the pause ends when %s in %s %s: kubectl drydock resize -n %s sts/%s --update-owner writes it, or %s=%s lets Drydock "+
		"write it", strings.Join(fields, ", "), o.Kind, o.Name, f.in.Set.Namespace, f.in.Set.Name, api.OwnerPolicyAnnotation, api.OwnerUpdate)
}

// settings returns the settings that pause owners of the row.
func settings(row owners.Row) string {
	var words []string
	for _, s := range row.Pause {
		words = append(words, fmt.Sprintf("%s %s=%v", s.In, s.Key, s.Value))
	}
	return strings.Join(words, ", ")
}

// denials returns the refusals of the API server. Refusals of several objects of a kind with the same message become one problem.
func denials(checks []Check) []resize.Problem {
	type denial struct{ message, kind string }
	var order []denial
	count, first := map[denial]int{}, map[denial]Check{}
	for _, c := range checks {
		if c.Outcome != Denied {
			continue
		}
		k := denial{strings.ReplaceAll(c.Message, c.Name, ""), string(c.Verb) + string(c.Resource)}
		if count[k]++; count[k] == 1 {
			order, first[k] = append(order, k), c
		}
	}
	var found []resize.Problem
	for _, k := range order {
		message := fmt.Sprintf("the API server would refuse to %s %s %s: %s", first[k].Verb, first[k].Resource, first[k].Name, first[k].Message)
		if n := count[k]; n > 1 {
			message += fmt.Sprintf(" (and %d more like it)", n-1)
		}
		found = append(found, resize.Problem{Reason: api.Rejected, Message: message})
	}
	return found
}

package forecast

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
)

// Usage is what a kubelet says of the file system of a claim.
type Usage struct {
	Used, Capacity int64
}

// Document puts together what was judged, what the kubelets measure, by claim, and what the API server said.
func (f *Forecast) Document(measured map[string]Usage, checks []Check) *Document {
	d := &Document{Version: Version, Namespace: f.in.Set.Namespace, Set: f.in.Set.Name, Request: f.in.Set.Annotations[api.ResizeAnnotation],
		Before: f.before, Refused: slices.Clone(f.refused), Checks: checks, Downtime: Downtime{None: true}}
	if f.status != nil {
		d.Method, d.Templates, d.Recreate = f.status.Method, f.status.Templates, f.status.Recreate
		d.Owner, d.Quotas = f.owner(), resize.Rooms(f.in.Input, f.wish)
		for i := range f.status.Claims {
			d.Claims = append(d.Claims, f.claim(&f.status.Claims[i], measured))
		}
		d.Copy, d.Downtime = total(d.Claims), f.downtime(d.Claims)
		f.fits(d)
	}
	d.Refused = append(d.Refused, denials(checks)...)
	d.Verdict = f.verdict(d)
	return d
}

func (f *Forecast) verdict(d *Document) Verdict {
	switch {
	case len(d.Refused) > 0:
		return Refused
	case len(d.Before) > 0:
		return Waits
	case f.status == nil:
		return Nothing
	}
	return Goes
}

func (f *Forecast) claim(part *api.ClaimStatus, measured map[string]Usage) Claim {
	live := f.in.Claim(part.Name)
	c := Claim{Name: part.Name, Template: part.Template, Method: api.MethodExpand, From: part.From, To: part.To, Volume: part.OldVolume,
		Class: sts.ClassOf(live), NewClass: part.Class, Modes: live.Spec.AccessModes, NewModes: part.Modes, Capacity: f.capacity(part)}
	for _, pod := range f.in.Users(part.Name) {
		c.Users = append(c.Users, User{Pod: pod.Name, Node: pod.Spec.NodeName, Foreign: !sts.IsPodOf(pod, f.in.Set)})
	}
	if part.Method == api.MethodExpand {
		return c
	}
	c.Method, c.Cold = api.MethodCopy, f.cold(part)
	if usage, known := measured[part.Name]; known && !sts.IsBlock(live) && usage.alone(c.Capacity) {
		c.Used = &usage.Used
	}
	return c
}

// alone reports whether the file system is the claim's alone. Of a volume that is a folder, the kubelet tells how much the whole file
// system around it has, and uses.
func (u Usage) alone(capacity int64) bool { return u.Used <= capacity && u.Capacity <= 2*capacity }

func (f *Forecast) capacity(part *api.ClaimStatus) int64 {
	size := part.From
	if volume := f.in.Volume(part.OldVolume); volume != nil {
		if has := volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(size) > 0 {
			size = has
		}
	}
	return size.Value()
}

// cold says why the claim cannot be copied while the set runs, or nothing.
func (f *Forecast) cold(part *api.ClaimStatus) string {
	if sts.Replicas(f.in.Set) == 0 {
		return "the set is at zero"
	}
	return f.in.Cold(f.in.Claim(part.Name))
}

func total(claims []Claim) Copy {
	var sum Copy
	for _, c := range claims {
		if c.Method != api.MethodCopy {
			continue
		}
		sum.Claims++
		if c.Used != nil {
			sum.Measured += *c.Used
		} else {
			sum.Unmeasured += c.Capacity
		}
	}
	return sum
}

// fits compares what is in use with what a smaller volume has, as the mover does before it writes.
func (f *Forecast) fits(d *Document) {
	for _, c := range d.Claims {
		if c.Used == nil || c.To.Value() >= c.Capacity {
			continue
		}
		used := resource.NewQuantity(*c.Used, resource.BinarySI)
		margin := c.To.Value() / 100 * int64(f.in.Settings.ShrinkMargin)
		switch {
		case *c.Used > c.To.Value():
			d.Refused = append(d.Refused, resize.Problem{Reason: api.CopyFailed, Message: fmt.Sprintf(
				"claim %s uses %s, which does not fit into %s: the first copy would fail; ask for more, or remove data", c.Name, used, &c.To)})
		case *c.Used+margin > c.To.Value():
			d.Warnings = append(d.Warnings, fmt.Sprintf("claim %s uses %s; of %s, %d%% have to stay free: the first copy may fail, and the set goes on then",
				c.Name, used, &c.To, f.in.Settings.ShrinkMargin))
		}
	}
}

// owner is who controls the set, and whether that is paused.
func (f *Forecast) owner() *Owner {
	ref := sts.Controller(f.in.Set)
	if ref == nil {
		return nil
	}
	o := &Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	gv, _ := schema.ParseGroupVersion(ref.APIVersion) // one that cannot be read is nobody's
	row, known := f.in.Registry.Find(gv.Group, ref.Kind)
	switch {
	case !f.wish.AsksOwner():
		o.How = "it is not asked: nothing changes that it would undo"
	case api.OwnerPolicy(f.in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore:
		o.How = fmt.Sprintf("it is left alone, as %s=%s says", api.OwnerPolicyAnnotation, api.OwnerIgnore)
	case !known:
		o.How = owners.Unknown(gv.Group, ref.Kind)
	case row.Up:
		o.Paused, o.How = true, "through the resource that controls it"
	case !row.Can(owners.ByPause):
		o.How = "its operator can stop its sets for a sleep, but not pause for a resize: pause-owner would refuse"
	default:
		o.Paused, o.How = true, fmt.Sprintf("by %s, if it has the annotation %s=%s, or its namespace the label %s=%s", settings(row),
			api.AllowAnnotation, api.AllowPause, api.PauseOwnersLabel, api.AllowValue)
	}
	return o
}

func settings(row owners.Row) string {
	var words []string
	for _, s := range row.Pause {
		words = append(words, fmt.Sprintf("%s %s=%v", s.In, s.Key, s.Value))
	}
	return strings.Join(words, ", ")
}

// denials are the refusals of the API server. What it says of several objects alike is said once.
func denials(checks []Check) []resize.Problem {
	type kind struct{ words, of string }
	var order []kind
	count, first := map[kind]int{}, map[kind]Check{}
	for _, c := range checks {
		if c.Outcome != Denied {
			continue
		}
		k := kind{strings.ReplaceAll(c.Message, c.Name, ""), string(c.Verb) + string(c.Resource)}
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

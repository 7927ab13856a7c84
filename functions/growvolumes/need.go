package growvolumes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/statefulset"
)

// need is a template with a claim that needs more space.
type need struct {
	template string
	rule     api.GrowRule
	fullest  statefulset.Claim
	// from is the size of the fullest claim. target is the minimum size of each claim after the growth.
	from, target resource.Quantity
	// shortage is the reason, for messages.
	shortage string
}

// announcement returns the message of the Event for the growth.
func (n need) announcement() string {
	return fmt.Sprintf("%s. The claims of template %s grow from %s to %s", n.shortage, n.template, &n.from, &n.target)
}

// blockedWarning returns the Warning that the template cannot grow, with the reason.
func (n need) blockedWarning(why string) api.GrowthWarning {
	return api.GrowthWarning{Template: n.template, Reason: api.GrowthBlocked,
		Message: fmt.Sprintf("the volumes of template %s are nearly full and do not grow: %s", n.template, why)}
}

// blockedWarnings returns the Warnings that the templates cannot grow, with the reason.
func blockedWarnings(needs []need, why string) (warnings []api.GrowthWarning) {
	for _, n := range needs {
		warnings = append(warnings, n.blockedWarning(why))
	}
	return warnings
}

// findNeeds returns the templates that need to grow and may grow further. It returns warnings for templates at their limit, without a known
// usage, or without existence in the set.
func (in Input) findNeeds() (needs []need, warnings []api.GrowthWarning) {
	for _, template := range in.Rules.UnknownTemplates(in.Set) {
		warnings = append(warnings, api.GrowthWarning{Template: template, Reason: api.GrowInvalid,
			Message: fmt.Sprintf("%s names template %s, "+
				"which StatefulSet %s does not have. Name one of its volumeClaimTemplates", api.GrowAnnotation, template, in.Set.Name)})
	}
	for i := range in.Set.Spec.VolumeClaimTemplates {
		template := in.Set.Spec.VolumeClaimTemplates[i].Name
		rule, hasRule := in.Rules.For(template)
		if !hasRule {
			continue
		}
		need, warning := in.needOfTemplate(template, rule)
		if warning != nil {
			warnings = append(warnings, *warning)
		} else if need != nil {
			needs = append(needs, *need)
		}
	}
	return needs, warnings
}

// memberClaims returns the claims of the template that members of the set use, by ordinal.
func (in Input) memberClaims(template string) []statefulset.Claim {
	claims := slices.DeleteFunc(statefulset.ClaimsOf(in.Set, in.Claims), func(c statefulset.Claim) bool {
		return c.Template != template || !in.Wants(c.Ordinal) || c.DeletionTimestamp != nil
	})
	slices.SortFunc(claims, func(a, b statefulset.Claim) int { return a.Ordinal - b.Ordinal })
	return claims
}

// needOfTemplate returns the need of the template's fullest claim that is smaller than max, if it has less free space than the rule
// requires. If only claims with the size max lack space, or if the usage of every claim is unknown, it returns a warning.
func (in Input) needOfTemplate(template string, rule api.GrowRule) (*need, *api.GrowthWarning) {
	claims := in.memberClaims(template)
	var fullest, fullestAtMax *need
	known, first := false, ""
	lowest := 0.0
	for _, c := range claims {
		u, why := in.usageOf(c)
		if why != "" {
			if first == "" {
				first = fmt.Sprintf("claim %s: %s", c.Name, why)
			}
			continue
		}
		known = true
		if u.MeasuredAt.Before(in.latestResizeEnd()) {
			continue // measured before the latest resize
		}
		shortage, size := shortageOf(c.Name, u, rule), volumeSize(c)
		n, share := need{template: template, rule: rule, fullest: c, shortage: shortage}, float64(u.Free)/float64(u.Capacity)
		switch {
		case shortage == "":
		case size.Cmp(rule.Max) >= 0:
			fullestAtMax = &n
		case fullest == nil || share < lowest:
			fullest, lowest = &n, share
		}
	}
	switch {
	case len(claims) == 0:
		return nil, nil
	case !known:
		return nil, &api.GrowthWarning{Template: template, Reason: api.UsageUnknown, Message: fmt.Sprintf("the volumes of template %s "+
			"do not grow, because their usage is unknown (%s). Check the log of grow-volumes and its settings DRYDOCK_GROW_*",
			template, first)}
	case fullest == nil && fullestAtMax == nil:
		return nil, nil
	}
	return in.withTarget(*cmp.Or(fullest, fullestAtMax), claims)
}

// withTarget returns the need with its target size, or a warning if the limit allows no growth. All claims get at least the size of the
// largest claim.
func (in Input) withTarget(n need, claims []statefulset.Claim) (*need, *api.GrowthWarning) {
	n.from = volumeSize(n.fullest)
	n.target = n.rule.Max
	if by := n.rule.By.Of(n.from.Value()); by < n.rule.Max.Value()-n.from.Value() { // a difference, because a sum could overflow
		n.target = roundUp(n.from.Value() + by)
	}
	largest := statefulset.Requested(statefulset.Template(in.Set, n.template))
	for _, c := range claims {
		if size := volumeSize(c); size.Cmp(largest) > 0 {
			largest = size
		}
	}
	if n.target.Cmp(largest) < 0 {
		n.target = largest
	}
	if n.target.Cmp(n.rule.Max) > 0 {
		n.target = n.rule.Max
	}
	if n.target.Cmp(n.from) > 0 {
		return &n, nil
	}
	return nil, &api.GrowthWarning{Template: n.template, Reason: api.GrowthLimit,
		Message: fmt.Sprintf("a volume of template %s is nearly full and "+
			"does not grow beyond max:%s. Raise max in %s, or free space on the volume", n.template, &n.rule.Max, in.Rules.Source)}
}

// usageOf returns the usage of the claim's volume, or why it is unknown.
func (in Input) usageOf(c statefulset.Claim) (grow.Usage, string) {
	u, reported := in.Usage[c.Name]
	switch {
	case statefulset.IsBlock(c.PersistentVolumeClaim):
		return u, "raw block volumes report no usage"
	case !reported:
		return u, "its usage was not reported"
	}
	return u, u.Problem(c.Status.Capacity["storage"], in.Now)
}

// latestResizeEnd returns when the latest resize ended; zero if no usable figures are older. A clock that was ahead may have written a time
// that no figures reach for days.
func (in Input) latestResizeEnd() time.Time {
	record := operation.Of(in.Set).Resize
	if record != nil && record.Finished != nil && operation.Within(in.Now, record.Finished.Time, grow.MaxAge) {
		return record.Finished.Time
	}
	return time.Time{}
}

// shortageOf names the space or inodes that the volume lacks by the rule; "" if it has enough.
func shortageOf(claim string, u grow.Usage, rule api.GrowRule) string {
	switch free := percent(u.Free, u.Capacity); {
	case u.Free < rule.Below.Of(u.Capacity):
		return fmt.Sprintf("claim %s has %d%% of its space free, less than %s", claim, free, rule.Below)
	case u.Inodes > 0 && float64(u.InodesFree)*100 < float64(u.Inodes)*float64(rule.Inodes):
		return fmt.Sprintf("claim %s has %d%% of its inodes free, less than %d%%", claim, percent(u.InodesFree, u.Inodes), rule.Inodes)
	}
	return ""
}

func percent(part, whole int64) int { return int(float64(part) / float64(whole) * 100) }

// volumeSize returns the size of the claim's volume. The request of a claim may be larger, and may never be fulfilled.
func volumeSize(c statefulset.Claim) resource.Quantity {
	size, capacity := statefulset.GuaranteedSize(c.PersistentVolumeClaim), c.Status.Capacity["storage"]
	if capacity.Cmp(size) > 0 {
		return capacity
	}
	return size
}

const mebi, gibi = 1 << 20, 1 << 30

// roundUp rounds a size up to whole MiB, or to whole GiB from 10 GiB on. Cloud disks have no finer sizes.
func roundUp(bytes int64) resource.Quantity {
	unit := int64(mebi)
	if bytes >= 10*gibi {
		unit = gibi
	}
	return *resource.NewQuantity((bytes+unit-1)/unit*unit, resource.BinarySI)
}

// withoutObstacle returns the needs whose claims can grow in place, and a warning for each other need.
func (in Input) withoutObstacle(needs []need) (possible []need, warnings []api.GrowthWarning) {
	for _, n := range needs {
		if why := in.obstacle(n); why != "" {
			warnings = append(warnings, n.blockedWarning(why))
		} else {
			possible = append(possible, n)
		}
	}
	return possible, warnings
}

// updatesOwner reports whether Drydock is to write the size of the volumes into the custom resource that controls the set.
func updatesOwner(set *appsv1.StatefulSet) bool {
	return statefulset.Controller(set) != nil && api.OwnerPolicy(set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerUpdate
}

// ownerObstacle returns why the custom resource that controls the set forbids a growth; "" if it does not. Drydock must be able to write
// the new size there. Else the operator would undo the growth a day later, or its next set would shrink the claims again.
func (in Input) ownerObstacle() string {
	owner := statefulset.Controller(in.Set)
	ignored := api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore
	switch {
	case owner == nil, ignored && !api.FollowsOwner(in.Set), updatesOwner(in.Set) && in.Consent.AllowsUpdate():
		return ""
	case updatesOwner(in.Set):
		return fmt.Sprintf("%s %s controls the StatefulSet and the size of its volumes, and the namespace does not let Drydock change it. Raise "+
			"the size there, or allow it with %s", owner.Kind, owner.Name, owners.UpdateConsentCommand(in.Set.Namespace))
	}
	return fmt.Sprintf("%s %s controls the StatefulSet and the size of its volumes. Raise the size there, or let Drydock do it with the "+
		"annotation %s=%s", owner.Kind, owner.Name, api.OwnerPolicyAnnotation, api.OwnerUpdate)
}

// obstacle returns why the template's claims cannot grow without stopping a member; "" if they can. A resize changes every claim of the
// template with a volume, including claims that no member uses at present.
func (in Input) obstacle(n need) string {
	if why := in.ownerObstacle(); why != "" {
		return why
	}
	switch method := api.Method(in.Set.Annotations[api.ResizeMethodAnnotation]); method {
	case "", api.MethodAuto, api.MethodExpand:
	default:
		return fmt.Sprintf("the annotation %s=%.40s stops members, and growth must not stop any. Remove that annotation, or request a "+
			"resize with %s", api.ResizeMethodAnnotation, method, api.ResizeAnnotation)
	}
	var fixedClaims []string
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		class := in.Classes[statefulset.ClassOf(c.PersistentVolumeClaim)]
		expands := class != nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
		if c.Template == n.template && c.Spec.VolumeName != "" && !expands && statefulset.Grows(c.PersistentVolumeClaim,
			api.Target{Size: n.target}) {
			fixedClaims = append(fixedClaims, fmt.Sprintf("%s (class %q)", c.Name, statefulset.ClassOf(c.PersistentVolumeClaim)))
		}
	}
	if len(fixedClaims) > 0 {
		slices.Sort(fixedClaims)
		return fmt.Sprintf("claim %s cannot grow in place. Set allowVolumeExpansion in its StorageClass, or request a resize by copy "+
			"with %s", fixedClaims[0], api.ResizeAnnotation)
	}
	return ""
}

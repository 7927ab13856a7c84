package world

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// EffectiveTargets returns the targets of the set's volumes by template: the larger of the user's request and of the floor of growth by
// usage. A request that cannot be read has none.
func EffectiveTargets(set *appsv1.StatefulSet, record *api.Resize) map[string]api.Target {
	targets := map[string]api.Target{}
	text, _ := api.RequestOf(set)
	if request, err := api.ParseRequest(text); err == nil {
		targets = RequestedTargets(set, text, request, record)
	}
	for template, floor := range FloorTargets(GrowTo(set, record, false)) {
		target := targets[template]
		if target.Size.Cmp(floor.Size) < 0 {
			target.Size, target.Exact = floor.Size, false
			targets[template] = target
		}
	}
	return targets
}

// RequestedTargets returns the targets of the user's request by template. A request that has succeeded still applies to claims that are
// added later. But it does not revert a claim that a user has enlarged since, or given other access modes or attributes. A size that growth
// by usage exceeds is no longer exact, so that the volumes do not shrink.
func RequestedTargets(set *appsv1.StatefulSet, text string, request api.Request, record *api.Resize) map[string]api.Target {
	fulfilled := record != nil && record.Request == text && (record.Phase == api.Succeeded || record.IsGrowth())
	growths := StandingGrowths(set, record)
	targets := map[string]api.Target{}
	for template, target := range Targets(set, request) {
		if _, grown := growths[template]; grown {
			target.Exact = false
		}
		if fulfilled {
			target.Exact, target.Modes, target.Attributes = false, nil, nil
		}
		targets[template] = target
	}
	return targets
}

// Targets returns the requested values by template.
func Targets(set *appsv1.StatefulSet, request api.Request) map[string]api.Target {
	if !request.Auto {
		return request.Targets
	}
	targets := map[string]api.Target{}
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		targets[template.Name] = statefulset.TargetOf(template)
	}
	return targets
}

// Answered reports whether the request has no effect until the user changes it: it was refused, it failed, or its operation was rolled
// back. A request that has succeeded still applies to later claims, and so does one that the set fulfilled when a growth began.
func Answered(record *api.Resize, request string) bool {
	return record != nil && record.Request == request && !record.IsGrowth() &&
		(record.Phase != api.Succeeded || record.Kind == api.KindRollback)
}

// StandingGrowths returns the latest growth by usage of each template, if it still counts. The user's latest decision about a size replaces
// it: a request for another size, or an operation that gave the template a smaller size. Every reader judges that by itself, because
// grow-volumes removes the floor minutes later.
func StandingGrowths(set *appsv1.StatefulSet, record *api.Resize) map[string]api.RequestedGrowth {
	growth, err := api.LoadGrowth(set)
	if err != nil || growth == nil {
		return nil
	}
	later := record != nil && !record.IsGrowth() && record.Operation != growth.After
	requested := RequestedSizes(set)
	standing := maps.Clone(growth.Latest)
	maps.DeleteFunc(standing, func(template string, latest api.RequestedGrowth) bool {
		size, named := requested[template]
		return latest.Over == nil || named && size != *latest.Over || later && slices.ContainsFunc(record.Templates,
			func(t api.TemplateTarget) bool { return t.Name == template && latest.Exceeds(t.Size) })
	})
	return standing
}

// RequestedSizes returns the sizes in the user's request by template, with a + if larger claims do not shrink.
func RequestedSizes(set *appsv1.StatefulSet) map[string]string {
	text, _ := api.RequestOf(set)
	request, err := api.ParseRequest(text)
	if err != nil {
		return nil
	}
	sizes := map[string]string{}
	for template, target := range request.Targets {
		sizes[template] = target.Size.String()
		if !target.Exact {
			sizes[template] += api.AtLeast
		}
	}
	return sizes
}

// GrowTo returns the floors of growth by usage that count, as in GrowToAnnotation; "" if there are none. A growth that has failed is not
// repeated before grow-volumes raises the floors again, or a user retries.
func GrowTo(set *appsv1.StatefulSet, record *api.Resize, retried bool) string {
	text, raised := set.Annotations[api.GrowToAnnotation]
	if !raised {
		return ""
	}
	floors, err := api.ParseGrowTo(text)
	if err != nil {
		return "" // grow-volumes replaces it
	}
	growths := StandingGrowths(set, record)
	for template := range floors {
		if _, stands := growths[template]; !stands || statefulset.Template(set, template) == nil {
			delete(floors, template)
		}
	}
	counting := api.FormatGrowTo(floors)
	if !retried && GrowthFailed(set, record) && record.GrowTo == counting {
		return ""
	}
	return counting
}

// GrowthFailed reports whether the latest operation is a growth by usage that has failed, and grow-volumes has not raised the floors since.
func GrowthFailed(set *appsv1.StatefulSet, record *api.Resize) bool {
	if !record.IsGrowth() || record.Phase != api.Failed {
		return false
	}
	growth, err := api.LoadGrowth(set)
	return err == nil && growth != nil && growth.After != record.Operation
}

// FloorTargets returns the targets of floors by template. Larger claims do not shrink.
func FloorTargets(growTo string) map[string]api.Target {
	targets := map[string]api.Target{}
	floors, _ := api.ParseGrowTo(growTo) // GrowTo has read them
	for template, size := range floors {
		targets[template] = api.Target{Size: size}
	}
	return targets
}

// orphanGrace is how long a volume must be without a claim before it may be an orphan. In that time a claim can come back, and a stale
// cache can catch up.
const orphanGrace = 10 * time.Minute

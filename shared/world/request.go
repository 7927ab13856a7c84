package world

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// EffectiveTargets returns the targets of the request by template. A request that has succeeded still applies to claims that are added
// later. But it does not revert a claim that a user has enlarged since, or given other access modes or attributes.
func EffectiveTargets(set *appsv1.StatefulSet, text string, request api.Request, record *api.Resize) map[string]api.Target {
	targets := Targets(set, request)
	if record == nil || record.Phase != api.Succeeded || record.Request != text {
		return targets
	}
	relaxed := map[string]api.Target{}
	for template, target := range targets {
		target.Exact, target.Modes, target.Attributes = false, nil, nil
		relaxed[template] = target
	}
	return relaxed
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
// back. A request that has succeeded still applies to later claims.
func Answered(record *api.Resize, request string) bool {
	return record != nil && record.Request == request && (record.Phase != api.Succeeded || record.Kind == api.KindRollback)
}

// orphanGrace is how long a volume must be without a claim before it may be an orphan. In that time a claim can come back, and a stale
// cache can catch up.
const orphanGrace = 10 * time.Minute

package world

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Wanted returns the targets of the request, by template. A request that has succeeded still counts for claims that are added later. But
// then nothing is done only because a user has enlarged a claim since, or given it other access modes or attributes.
func Wanted(set *appsv1.StatefulSet, text string, request api.Request, record *api.Resize) map[string]api.Target {
	targets := Targets(set, request)
	if record == nil || record.Phase != api.Succeeded || record.Request != text {
		return targets
	}
	standing := map[string]api.Target{}
	for template, target := range targets {
		target.Exact, target.Modes, target.Attributes = false, nil, nil
		standing[template] = target
	}
	return standing
}

// Targets returns the targets of the request, by template.
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

// Answered reports whether the request is finished until the user changes it: it was refused, it failed, or its operation was rolled back.
// A request that has succeeded still counts for later claims.
func Answered(record *api.Resize, request string) bool {
	return record != nil && record.Request == request && (record.Phase != api.Succeeded || record.Kind == api.KindRollback)
}

// orphanGrace is how long a volume has no claim before it may be an orphan: long enough for a claim that comes back, and for a cache
// that is behind.
const orphanGrace = 10 * time.Minute

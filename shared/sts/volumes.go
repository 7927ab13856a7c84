package sts

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
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
		targets[template.Name] = TargetOf(template)
	}
	return targets
}

// Answered reports whether the request is finished until the user changes it: it was refused, it failed, or its operation was rolled back.
// A request that has succeeded still counts for later claims.
func Answered(record *api.Resize, request string) bool {
	return record != nil && record.Request == request && (record.Phase != api.Succeeded || record.Kind == api.KindRollback)
}

// Expired reports whether the volume is an old one whose window is over.
func Expired(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || link.Role != api.RoleRetired || freed(volume) {
		return false
	}
	until, known := retainedUntil(volume)
	return known && now.After(until)
}

// InWindow reports whether an operation has left the volume behind and says until when it is kept.
func InWindow(volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	_, known := retainedUntil(volume)
	return err == nil && link != nil && link.Role == api.RoleRetired && known
}

// freed reports whether an administrator has cleared the volume's claimRef, to use the volume again. Drydock has nothing to do with it
// any more.
func freed(volume *corev1.PersistentVolume) bool { return volume.Spec.ClaimRef == nil }

func retainedUntil(volume *corev1.PersistentVolume) (until time.Time, known bool) {
	until, err := time.Parse(time.RFC3339, volume.Annotations[api.RetainedUntilAnnotation])
	return until, err == nil
}

// orphanGrace is how long a volume has no claim before it may be an orphan: long enough for a claim that comes back, and for a cache
// that is behind.
const orphanGrace = 10 * time.Minute

// MayBeOrphan reports whether no claim has the volume, for a while already, and an operation still holds it, which says of no time
// when it is given back. If the operation has no set and no journal any more, as after the end of a namespace, nothing else finds it.
func MayBeOrphan(volume *corev1.PersistentVolume, now time.Time) bool {
	link, err := api.LoadLink(volume)
	if err != nil || link == nil || InWindow(volume) || freed(volume) {
		return false
	}
	if volume.Status.Phase != corev1.VolumeReleased && volume.Status.Phase != corev1.VolumeAvailable {
		return false
	}
	since := volume.Status.LastPhaseTransitionTime
	return since == nil || link.Role == api.RoleForeign || now.Sub(since.Time) >= orphanGrace
}

// Package cleanup has the rules for cleaning up after a scale-down: the pod template, the ordinals, and the claims that belong to a set. It
// is pure. sift uses it to find the functions that a change concerns, cleanup-pod to decide.
package cleanup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/members"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Problem is the reason why nothing can be cleaned up.
type Problem struct {
	Reason  api.Reason
	Message string
}

func problem(reason api.Reason, message string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(message, args...)}
}

// templateText returns the template as written, and its annotation key.
func templateText(set *appsv1.StatefulSet) (written, key string) {
	for _, key := range []string{api.CleanupTemplateAnnotation, api.OlderCleanupTemplateAnnotation} {
		if written := set.Annotations[key]; written != "" {
			return written, key
		}
	}
	return "", ""
}

// Digest returns a digest of everything that decides how the set is cleaned up. It is empty if no cleanup is requested.
func Digest(set *appsv1.StatefulSet) string {
	if !statefulset.CleanupAsked(set) {
		return ""
	}
	written, _ := templateText(set)
	onDelete := set.Annotations[api.CleanupOnDeleteAnnotation]
	if isRefusedOnDelete(set) {
		onDelete = "refused"
	}
	h := sha256.New()
	for _, part := range []string{written, string(statefulset.WhenScaled(set)), string(statefulset.WhenDeleted(set)),
		set.Annotations[api.CleanupOnScaleUpAnnotation], onDelete} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Template returns the set's cleanup pod template. It checks everything that needs no API server. The problem has an advice.
func Template(set *appsv1.StatefulSet) (*corev1.PodTemplateSpec, *Problem) {
	written, key := templateText(set)
	template := &corev1.PodTemplateSpec{}
	// JSON is YAML. As with kubectl, an unknown field is an error, because a misspelt field would otherwise be dropped silently.
	if err := bounded.YAML(written, template); err != nil {
		return nil, problem(api.TemplateInvalid, "annotation %s is not a pod template: %s", key,
			text.Clip(strings.ReplaceAll(err.Error(), "\n", " "), longestQuote))
	}
	switch policy := template.Spec.RestartPolicy; {
	case policy != "" && policy != corev1.RestartPolicyOnFailure:
		return nil, problem(api.TemplateInvalid, "annotation %s: restartPolicy is %q; set it to OnFailure or remove it, because a failed "+
			"cleanup is tried again", key, policy)
	case len(template.Spec.Containers) == 0:
		return nil, problem(api.TemplateInvalid, "annotation %s: spec.containers is empty; name the container that cleans up", key)
	case statefulset.Selects(set, template.Labels):
		return nil, problem(api.TemplateInvalid, "annotation %s: its labels match the StatefulSet's selector, so the set would treat the "+
			"cleanup pod as a member and delete it; give the template other labels", key)
	}
	if why := podend.Problem(template); why != "" {
		return nil, problem(api.TemplateInvalid, "annotation %s: %s", key, why)
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		if slices.ContainsFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name }) {
			return nil, problem(api.TemplateInvalid, "annotation %s: volume %q has the name of a volumeClaimTemplate; remove it, because the "+
				"member's volume is added under that name", key, claim.Name)
		}
	}
	if statefulset.WhenScaled(set) != statefulset.Retain {
		return nil, problem(api.DeletesClaims, "persistentVolumeClaimRetentionPolicy.whenScaled is %s, so a scale-down deletes the claims "+
			"before a cleanup; set it to %s, or remove annotation %s", statefulset.WhenScaled(set), statefulset.Retain, key)
	}
	if isRefusedOnDelete(set) {
		owner := set.OwnerReferences[0]
		return nil, problem(api.DeletesClaims, "annotation %s would delete the claims when the operator of %s %s deletes the set to create it "+
			"again; remove the annotation", api.CleanupOnDeleteAnnotation, text.Clip(owner.Kind, longestName), text.Clip(owner.Name, longestName))
	}
	if members.GoesWithItsData(set) && statefulset.WhenDeleted(set) != statefulset.Retain {
		return nil, problem(api.DeletesClaims, "persistentVolumeClaimRetentionPolicy.whenDeleted is %s, so deleting the set deletes the claims "+
			"before a cleanup; set it to %s, or remove annotation %s", statefulset.WhenDeleted(set), statefulset.Retain,
			api.CleanupOnDeleteAnnotation)
	}
	if on := api.OnScaleUp(set.Annotations[api.CleanupOnScaleUpAnnotation]); on != "" && on != api.OnScaleUpWait && on != api.OnScaleUpCancel {
		return nil, problem(api.RequestInvalid, "annotation %s is %q; set it to %s or %s", api.CleanupOnScaleUpAnnotation,
			text.Clip(string(on), 40),
			api.OnScaleUpWait, api.OnScaleUpCancel)
	}
	return template, nil
}

// isRefusedOnDelete reports whether the set has the annotation although an operator makes it, and may create it again after a deletion.
func isRefusedOnDelete(set *appsv1.StatefulSet) bool {
	return set.Annotations[api.CleanupOnDeleteAnnotation] == "true" && !members.GoesWithItsData(set)
}

// longestName is the limit for names of owners in messages, in bytes.
const longestName = 100

// longestQuote is the limit for quotes of users' text in messages, in bytes.
const longestQuote = 500

// Cancels reports whether a scale-up cancels the cleanup of an ordinal that it needs.
func Cancels(set *appsv1.StatefulSet) bool {
	return api.OnScaleUp(set.Annotations[api.CleanupOnScaleUpAnnotation]) == api.OnScaleUpCancel
}

// HasFinalizer reports whether Drydock's finalizer holds the set.
func HasFinalizer(set *appsv1.StatefulSet) bool {
	return slices.Contains(set.Finalizers, api.CleanupFinalizer)
}

// NeedsFinalizer reports whether Drydock's finalizer should hold the set, because its deletion orders a cleanup of all ordinals. If the
// deletion of the set also deletes its claims, there is nothing to clean up.
func NeedsFinalizer(set *appsv1.StatefulSet) bool {
	return statefulset.Managed(set) && members.GoesWithItsData(set) && statefulset.WhenDeleted(set) == statefulset.Retain
}

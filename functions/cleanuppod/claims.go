package cleanuppod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/statefulset"
)

// claimUser returns a message about an unfinished pod that uses one of the claims, or "".
func (in Input) claimUser(claims []*corev1.PersistentVolumeClaim) string {
	for _, c := range claims {
		for _, p := range statefulset.Consumers(in.Pods, c.Name) {
			return fmt.Sprintf("pod %s uses claim %s. Delete the pod, or wait until it ends", p.Name, c.Name)
		}
	}
	return ""
}

// ofClaims names the claims in words.
func ofClaims(names []string) string {
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return "claims " + strings.Join(names, ", ")
}

// claimsAre names the ordinal's claims, followed by "is" or "are".
func claimsAre(o cleanup.Ordinal) string {
	names := ofClaims(namesOf(o.Claims))
	if len(o.Claims) == 1 {
		return names + " is"
	}
	return names + " are"
}

// namesOf returns the names of the claims.
func namesOf(claims []*corev1.PersistentVolumeClaim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.Name
	}
	return names
}

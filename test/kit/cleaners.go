package kit

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// cleaners is a Node's knowledge of cleanup pods and their claims.
type cleaners struct {
	// GuardClaims makes the deletion of a claim a violation unless a cleanup pod has succeeded on the claim.
	GuardClaims bool

	claims  map[types.UID]string // every observed claim, by name
	last    map[types.UID]string // the claims at the node's latest step
	deleted map[types.UID]bool
	cleaned map[types.UID]bool
	crashed map[types.UID]time.Time // the latest failure of the cleanup pod's container
	order   []string                // the pods that succeeded
}

func newCleaners() *cleaners {
	return &cleaners{claims: map[types.UID]string{}, last: map[types.UID]string{}, deleted: map[types.UID]bool{},
		cleaned: map[types.UID]bool{}, crashed: map[types.UID]time.Time{}}
}

func isCleaner(pod *corev1.Pod) bool {
	link, err := api.LoadLink(pod)
	return err == nil && link != nil && link.Role == api.RoleCleaner
}

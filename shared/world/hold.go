package world

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// MayWrite returns why the pod of a held member may still write to its volumes. It returns "" if there is proof that it cannot.
func (o *Observed) MayWrite(member *api.Member, pod *corev1.Pod) string {
	if why := statefulset.WhyNotStopped(pod, o.Nodes[pod.Spec.NodeName]); why != "" {
		return why
	}
	for _, move := range member.Claims {
		volume := o.Volume(move.OldVolume)
		if volume != nil && !statefulset.SharesPages(volume) && !statefulset.Unmounted(pod) {
			return fmt.Sprintf("node %s has not unmounted volume %s of pod %s", pod.Spec.NodeName, volume.Name, pod.Name)
		}
	}
	return ""
}

package forecast

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// restart returns the shortest and longest time of one stop and one start, of one member or of all members together.
func (s stop) restart(d *Stop) (from, to time.Duration) {
	times, members := 1, "one member at a time"
	switch {
	case s.members == 1:
		members = "one member"
	case s.together && s.ordered:
		times, members = s.members, fmt.Sprintf("%d members, which stop and start one after the other", s.members)
	case s.together:
		members = "all members together"
	}
	stopping := time.Duration(times) * s.grace
	d.Assumed = append(d.Assumed, fmt.Sprintf("%s: a pod ends at once, or uses its whole terminationGracePeriodSeconds (%s)", members,
		s.grace))
	if s.pod == "" {
		d.Excluded = append(d.Excluded, "the start of the pods: its time is unknown, because no pod is ready")
		return 0, stopping
	}
	d.Observed = append(d.Observed, fmt.Sprintf("the newest ready pod, %s, became ready %s after its creation", s.pod, s.start))
	starting := time.Duration(times) * s.start
	return starting, starting + stopping
}

// newestStart returns the newest ready pod of the set without restarted containers, and its time from creation to ready. The time is too
// long for a pod that was unready in between.
func newestStart(o *world.Observed) (string, time.Duration) {
	var newest *corev1.Pod
	var took time.Duration
	for _, pod := range o.Pods {
		ready := readySince(pod)
		if ready == nil || !statefulset.IsPodOf(pod, o.Set) || newest != nil && pod.CreationTimestamp.Before(&newest.CreationTimestamp) {
			continue
		}
		newest, took = pod, max(0, ready.LastTransitionTime.Sub(pod.CreationTimestamp.Time))
	}
	if newest == nil {
		return "", 0
	}
	return newest.Name, took
}

// readySince returns the Ready condition of a ready pod without restarted containers; nil for other pods.
func readySince(pod *corev1.Pod) *corev1.PodCondition {
	for _, c := range pod.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return nil
		}
	}
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

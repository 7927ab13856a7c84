package idle

import (
	"errors"
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// EnoughReady reports whether enough replicas of the set are ready to serve. An awake set needs one, so that a rollout or a scale-up
// does not take its site down. A waking set needs the number in its annotation wake-ready, by default all.
func EnoughReady(set *appsv1.StatefulSet, waking bool) bool {
	replicas, ready := statefulset.Replicas(set), set.Status.ReadyReplicas
	if replicas == 0 || ready == 0 {
		return false
	}
	if !waking {
		return true
	}
	needed, err := ParseWakeReady(set.Annotations[api.WakeReadyAnnotation])
	if err != nil || needed >= replicas {
		return statefulset.Ready(set)
	}
	return set.Status.ObservedGeneration >= set.Generation && ready >= needed
}

// allReady stands for every replica.
const allReady = math.MaxInt32

// ParseWakeReady returns how many replicas of a waking set have to be ready. The text is "all", empty for the same, "first", or a count.
func ParseWakeReady(text string) (int32, error) {
	switch text {
	case "", "all":
		return allReady, nil
	case "first":
		return 1, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxReplicas {
		return 0, errors.New(`write "all", "first", or a whole number from 1 to 1000`)
	}
	return int32(n), nil
}

package idle

import (
	"errors"
	"math"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// EnoughReady reports whether the set serves because enough of its replicas are ready. An awake set needs one ready replica, so that it
// also serves during a rollout or a scale-up. A waking set needs the number in its annotation wake-ready, by default all.
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

// allReady means that every replica has to be ready. It is larger than any count of replicas.
const allReady = math.MaxInt32

// ParseWakeReady returns how many replicas of a waking set have to be ready. The text is a count, "first" for one, or "all". An empty
// text means "all".
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

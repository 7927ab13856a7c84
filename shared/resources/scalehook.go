package resources

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// MakeScaleHook builds the Job of a hook of the scaling: "pre", "post" or "onFailure". It is run once, as MakeHook says, and gets as long as
// timeout.
func MakeScaleHook(set *appsv1.StatefulSet, record *api.Scale, hook string, template *corev1.PodTemplateSpec, timeout time.Duration) *batchv1.Job {
	link := api.Link{Operation: record.Operation, Role: api.RoleScaleHook, Namespace: set.Namespace, Set: record.Set}
	return hookJob(set, api.ScaleHookName(record.Operation, hook), template, link, scaleEnv(set, record, hook), timeout)
}

// scaleEnv tells a hook what is scaled, and how.
func scaleEnv(set *appsv1.StatefulSet, record *api.Scale, hook string) []corev1.EnvVar {
	first := sts.Start(set)
	return []corev1.EnvVar{
		{Name: "DRYDOCK_NAMESPACE", Value: set.Namespace},
		{Name: "DRYDOCK_SET", Value: set.Name},
		{Name: "DRYDOCK_SCALER", Value: record.Scaler.Name},
		{Name: "DRYDOCK_HOOK", Value: hook},
		{Name: "DRYDOCK_OPERATION", Value: record.Operation},
		{Name: "DRYDOCK_DIRECTION", Value: record.Direction()},
		{Name: "DRYDOCK_CURRENT", Value: strconv.Itoa(int(record.Previous))},
		{Name: "DRYDOCK_DESIRED", Value: strconv.Itoa(int(record.Target))},
		{Name: "DRYDOCK_ADDED", Value: listed(Ordinals(first, record.Previous, record.Target))},
		{Name: "DRYDOCK_REMOVED", Value: listed(Ordinals(first, record.Target, record.Previous))},
	}
}

// MostOrdinals bounds a variable, and with it the Job. No more members than these are removed at once after a hook.
const MostOrdinals = 10000

// Ordinals returns those that a set has with more members and lacks with fewer.
func Ordinals(first int, fewer, more int32) []int {
	all := []int{}
	for i := fewer; i < more && len(all) < MostOrdinals; i++ {
		all = append(all, first+int(i))
	}
	return all
}

// listed separates them by commas.
func listed(ordinals []int) string {
	words := make([]string, len(ordinals))
	for i, n := range ordinals {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

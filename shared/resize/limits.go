package resize

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// checkLimits finds sizes that a LimitRange does not allow.
func checkLimits(in Input, w *Changes) []Problem {
	var found []Problem
	for i := range in.Cluster.Limits {
		limits := &in.Cluster.Limits[i]
		for _, item := range limits.Spec.Limits {
			if item.Type == corev1.LimitTypePersistentVolumeClaim {
				found = append(found, checkLimit(w, limits.Name, item)...)
			}
		}
	}
	return found
}

func checkLimit(w *Changes, name string, item corev1.LimitRangeItem) []Problem {
	var found []Problem
	for _, t := range w.Templates {
		if largest, ok := item.Max[corev1.ResourceStorage]; ok && t.Size.Cmp(largest) > 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s allows claims of at most %s, but the request gives template %s %s. "+
				"Raise the limit or request less", name, &largest, t.Name, &t.Size))
		}
		if least, ok := item.Min[corev1.ResourceStorage]; ok && t.Size.Cmp(least) < 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s requires claims of at least %s, but the request gives template %s %s. "+
				"Request more", name, &least, t.Name, &t.Size))
		}
	}
	return found
}

package statefulset

import (
	"encoding/json"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// CleanupAsked reports whether the set has a cleanup pod template, and claims to clean up.
func CleanupAsked(set *appsv1.StatefulSet) bool {
	asked := set.Annotations[api.CleanupTemplateAnnotation] != "" || set.Annotations[api.OlderCleanupTemplateAnnotation] != ""
	return asked && len(set.Spec.VolumeClaimTemplates) > 0
}

// ReplicasManager returns the field manager that last wrote the set's replicas, for example "kubectl" or an operator's name, or "". It is
// for texts only: nothing proves who wrote a count.
func ReplicasManager(set *appsv1.StatefulSet) string {
	manager, at := "", time.Time{}
	for _, entry := range set.ManagedFields {
		var fields struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil || fields.Spec.Replicas == nil {
			continue
		}
		if entry.Time == nil || !entry.Time.Time.Before(at) {
			manager = entry.Manager
			if entry.Time != nil {
				at = entry.Time.Time
			}
		}
	}
	return manager
}

// RetainsForDrydock reports whether Drydock alone is the manager of the set's whenScaled. The API server makes a client the only manager
// of a field by a write that changes its value. A client that applies the same value becomes one more.
func RetainsForDrydock(set *appsv1.StatefulSet) bool {
	ours := false
	for _, entry := range set.ManagedFields {
		var fields struct {
			Spec struct {
				Policy struct {
					WhenScaled *struct{} `json:"f:whenScaled"`
				} `json:"f:persistentVolumeClaimRetentionPolicy"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil || fields.Spec.Policy.WhenScaled == nil {
			continue
		}
		if ours = entry.Manager == api.FieldManager; !ours {
			return false
		}
	}
	return ours
}

// SpecObserved reports whether the StatefulSet controller has observed the set's latest spec.
func SpecObserved(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation
}

// Unmet returns the fields whose present value in the set differs.
func Unmet(set *appsv1.StatefulSet, fields []api.Field) []api.Field {
	var unmet []api.Field
	for _, f := range fields {
		if now, known := FieldOf(set, f); known && (now.Removed != f.Removed || now.Value != f.Value) {
			unmet = append(unmet, f)
		}
	}
	return unmet
}

// FieldsOf returns the present value of each of the fields.
func FieldsOf(set *appsv1.StatefulSet, fields []api.Field) []api.Field {
	var all []api.Field
	for _, f := range fields {
		if now, known := FieldOf(set, f); known {
			all = append(all, now)
		}
	}
	return all
}

// FieldOf returns the present value of the field. It returns false if the set lacks the field's template.
func FieldOf(set *appsv1.StatefulSet, f api.Field) (api.Field, bool) {
	now, template := api.Field{Name: f.Name, Template: f.Template, Key: f.Key}, Template(set, f.Template)
	switch f.Name {
	case api.FieldServiceName:
		now.Value = set.Spec.ServiceName
	case api.FieldPodManagementPolicy:
		now.Value = string(set.Spec.PodManagementPolicy)
	case api.FieldTemplate:
		if now.Removed = template == nil; !now.Removed {
			target := TargetOf(template)
			now.Ask = &api.TemplateTarget{Name: f.Template, Size: target.Size, Class: target.Class, Modes: target.Modes}
		}
	default:
		if template == nil {
			return now, false
		}
		values := template.Labels
		if f.Name == api.FieldAnnotations {
			values = template.Annotations
		}
		value, has := values[f.Key]
		now.Value, now.Removed = value, !has
	}
	return now, true
}

// MountsVolume reports whether a container of the set's pod template mounts the volume with the name.
func MountsVolume(set *appsv1.StatefulSet, name string) bool {
	pod := &set.Spec.Template.Spec
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name }) ||
			slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == name })
	})
}

package resources

import (
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
)

// MoverOptions are the user's options for movers. An absent NodeSelector, Tolerations, PriorityClassName, ImagePullSecrets or
// SchedulerName means that of the set's pod template. Absent Resources mean the mover's own, and an absent ServiceAccountName means the
// namespace's default account.
type MoverOptions struct {
	Resources          *corev1.ResourceRequirements  `json:"resources,omitempty"`
	NodeSelector       map[string]string             `json:"nodeSelector,omitempty"`
	Tolerations        []corev1.Toleration           `json:"tolerations,omitempty"`
	PriorityClassName  string                        `json:"priorityClassName,omitempty"`
	ServiceAccountName string                        `json:"serviceAccountName,omitempty"`
	ImagePullSecrets   []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Labels and Annotations are added to the mover's pod, for example for an admission policy or an injector.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// RuntimeClassName selects a runtime that can copy all metadata of files. If it is absent, a mover without a required node has the
	// RuntimeClass of the set's pod template, and any other mover has none.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	SchedulerName    string `json:"schedulerName,omitempty"`
	// Root is false to run movers as the user of the set's pods although the namespace allows root, for example on NFS with root_squash.
	Root *bool `json:"root,omitempty"`
}

// RootAllowed reports whether movers may run as root. The parameter says whether the namespace allows it.
func (o MoverOptions) RootAllowed(namespace bool) bool {
	return namespace && (o.Root == nil || *o.Root)
}

// MoverOptionsOf returns the options from the set's annotation. Fields that the annotation lacks come from the namespace's ConfigMap, which
// may be nil. An unknown field is an error.
func MoverOptionsOf(set *appsv1.StatefulSet, config *corev1.ConfigMap) (MoverOptions, error) {
	options := MoverOptions{}
	if config != nil {
		if err := bounded.YAML(config.Data[api.MoverKey], &options); err != nil {
			return options, fmt.Errorf("key %s of ConfigMap %s/%s: %w", api.MoverKey, config.Namespace, config.Name, err)
		}
	}
	own := MoverOptions{}
	if err := bounded.YAML(set.Annotations[api.MoverAnnotation], &own); err != nil {
		return options, fmt.Errorf("annotation %s of StatefulSet %s/%s: %w", api.MoverAnnotation, set.Namespace, set.Name, err)
	}
	return own.withDefaults(options), nil
}

// withDefaults returns the options. Absent fields have the values of the defaults.
func (o MoverOptions) withDefaults(defaults MoverOptions) MoverOptions {
	if o.Resources == nil {
		o.Resources = defaults.Resources
	}
	if o.NodeSelector == nil {
		o.NodeSelector = defaults.NodeSelector
	}
	if o.Tolerations == nil {
		o.Tolerations = defaults.Tolerations
	}
	if o.PriorityClassName == "" {
		o.PriorityClassName = defaults.PriorityClassName
	}
	if o.ServiceAccountName == "" {
		o.ServiceAccountName = defaults.ServiceAccountName
	}
	if o.ImagePullSecrets == nil {
		o.ImagePullSecrets = defaults.ImagePullSecrets
	}
	if o.Labels == nil {
		o.Labels = defaults.Labels
	}
	if o.Annotations == nil {
		o.Annotations = defaults.Annotations
	}
	if o.RuntimeClassName == "" {
		o.RuntimeClassName = defaults.RuntimeClassName
	}
	if o.SchedulerName == "" {
		o.SchedulerName = defaults.SchedulerName
	}
	if o.Root == nil {
		o.Root = defaults.Root
	}
	return o
}

// applyTo writes the options to the spec of the mover's pod. Absent options change nothing, except that the pod gets no service account
// name.
func (o MoverOptions) applyTo(pod *corev1.PodSpec) {
	if o.Resources != nil {
		for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
			for i := range containers {
				containers[i].Resources = mergeResources(containers[i].Resources, *o.Resources)
			}
		}
	}
	if o.NodeSelector != nil {
		pod.NodeSelector = maps.Clone(o.NodeSelector)
	}
	if o.Tolerations != nil {
		pod.Tolerations = o.Tolerations
	}
	if o.PriorityClassName != "" {
		pod.PriorityClassName = o.PriorityClassName
	}
	pod.ServiceAccountName = o.ServiceAccountName
	if o.ImagePullSecrets != nil {
		pod.ImagePullSecrets = o.ImagePullSecrets
	}
	if o.RuntimeClassName != "" {
		pod.RuntimeClassName = &o.RuntimeClassName
	}
	if o.SchedulerName != "" {
		pod.SchedulerName = o.SchedulerName
	}
}

// Parallelism returns how many members of the set may be copied at once. A valid annotation of the set has precedence over the setting.
func Parallelism(set *appsv1.StatefulSet, settings api.Settings) int {
	if n, err := strconv.Atoi(set.Annotations[api.ResizeParallelismAnnotation]); err == nil && n > 0 {
		return n
	}
	return max(settings.Parallelism, 1)
}

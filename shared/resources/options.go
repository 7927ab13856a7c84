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

// MoverOptions change how movers run. An absent field has the value of the workload's pod template; resources and service account have the
// mover's own defaults.
type MoverOptions struct {
	Resources          *corev1.ResourceRequirements  `json:"resources,omitempty"`
	NodeSelector       map[string]string             `json:"nodeSelector,omitempty"`
	Tolerations        []corev1.Toleration           `json:"tolerations,omitempty"`
	PriorityClassName  string                        `json:"priorityClassName,omitempty"`
	ServiceAccountName string                        `json:"serviceAccountName,omitempty"`
	ImagePullSecrets   []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Labels and Annotations are those of the mover's pod, as for an admission policy or an injector.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// RuntimeClassName is the mover's, where another one cannot copy faithfully.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	SchedulerName    string `json:"schedulerName,omitempty"`
	// Root: false has movers run as the workload's user also where the namespace allows root, as for NFS with root_squash.
	Root *bool `json:"root,omitempty"`
}

// RootAllowed reports whether movers may run as root: the namespace allows it, and the options do not forbid it.
func (o MoverOptions) RootAllowed(namespace bool) bool {
	return namespace && (o.Root == nil || *o.Root)
}

// MoverOptionsOf reads the options from the set's annotation, and fields that it lacks from the namespace's ConfigMap; config is nil if
// there is none. A field that does not exist is an error.
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
	return own.over(options), nil
}

// over is each field of o that says something, else that of the other.
func (o MoverOptions) over(other MoverOptions) MoverOptions {
	if o.Resources == nil {
		o.Resources = other.Resources
	}
	if o.NodeSelector == nil {
		o.NodeSelector = other.NodeSelector
	}
	if o.Tolerations == nil {
		o.Tolerations = other.Tolerations
	}
	if o.PriorityClassName == "" {
		o.PriorityClassName = other.PriorityClassName
	}
	if o.ServiceAccountName == "" {
		o.ServiceAccountName = other.ServiceAccountName
	}
	if o.ImagePullSecrets == nil {
		o.ImagePullSecrets = other.ImagePullSecrets
	}
	if o.Labels == nil {
		o.Labels = other.Labels
	}
	if o.Annotations == nil {
		o.Annotations = other.Annotations
	}
	if o.RuntimeClassName == "" {
		o.RuntimeClassName = other.RuntimeClassName
	}
	if o.SchedulerName == "" {
		o.SchedulerName = other.SchedulerName
	}
	if o.Root == nil {
		o.Root = other.Root
	}
	return o
}

func (o MoverOptions) apply(pod *corev1.PodSpec) {
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

// Parallelism is how many members of the set are copied at once: its own wish, else the setting.
func Parallelism(set *appsv1.StatefulSet, settings api.Settings) int {
	if n, err := strconv.Atoi(set.Annotations[api.ResizeParallelismAnnotation]); err == nil && n > 0 {
		return n
	}
	return max(settings.Parallelism, 1)
}

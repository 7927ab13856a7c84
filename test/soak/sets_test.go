//go:build cluster

package soak

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

const (
	// writerImage is the image of test/soak/writer.
	writerImage = "dev.local/soak-writer:dev"
	writerPort  = 8080
)

// statefulSet returns the set before its first step, with writers that acknowledge their lines to the collector.
func (s Set) statefulSet(collector string) *appsv1.StatefulSet {
	set := kit.WorldSet(s.Name, 0, fmt.Sprintf("%dMi", s.Size), template)
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(s.Class)
	set.Annotations[api.WakeReplicasAnnotation] = fmt.Sprint(s.FirstReplicas)
	switch s.Kind {
	case Rolling:
		set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	case Scaled: // the Scaler decides the count
		delete(set.Annotations, api.WakeReplicasAnnotation)
	case Cleaned:
		delete(set.Annotations, api.WakeReplicasAnnotation)
		set.Annotations[api.CleanupTemplateAnnotation] = fmt.Sprintf(cleanup, s.Name, writerImage, collector)
		set.Annotations[api.CleanupAtZeroAnnotation] = "true"
		set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	set.Spec.Template.Spec = writerPod(collector)
	set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: template, MountPath: "/data"}}
	return set
}

// cleanup is a cleanup pod template. The pod sends the whole file to the collector.
const cleanup = `metadata:
  labels: {app: %s-cleanup}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: drain
      image: %s
      args: [-drain, -collector, "%s"]
      volumeMounts: [{name: data, mountPath: /data}]
`

// writerPod returns a pod that writes to /data. Without a collector it only serves its folder.
func writerPod(collector string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		AutomountServiceAccountToken:  ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000),
			FSGroup: ptr.To[int64](1000), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch)},
		Containers: []corev1.Container{{Name: "writer", Image: writerImage, Args: []string{"-collector", collector},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(writerPort)}}}}},
	}
}

// scaler returns the Scaler of the set before its first step.
func (s Set) scaler() v1alpha1.ScalerSpec {
	spec := v1alpha1.ScalerSpec{Target: s.Name, Replicas: ptr.To[int32](0)}
	if s.Hook {
		spec.Hooks.Pre = &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"spec":{"containers":[{"name":"hook","image":%q,"command":["true"]}]}}`, stage.WorkloadImage)}}}
	}
	return spec
}

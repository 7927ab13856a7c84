package main

import (
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// Names in the demo's namespace.
const (
	setName       = "web"
	containerName = "writer"
	templateName  = "data"
	mountPath     = "/data"
	replicas      = 3
	frontName     = "front"  // the Service with a cluster IP
	clientName    = "client" // the pod that calls it
	servingPort   = 8080
	drainSeconds  = 3
)

var setLabels = map[string]string{"app": setName}

// fillScript fills the volume once, then serves the files and writes nothing more.
//
//go:embed fill.sh
var fillScript string

// callScript calls an address repeatedly, and prints the numbers of answered and failed calls.
//
//go:embed call.sh
var callScript string

// makeNamespace enforces the strictest level of the Pod Security Standards, also for Drydock's movers.
func makeNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted", demoLabel: demoValue},
	}}
}

func makeService(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setName},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: setLabels},
	}
}

// makeFrontService returns the Service with a cluster IP, which the client calls.
func makeFrontService(namespace string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: frontName},
		Spec:       corev1.ServiceSpec{Selector: setLabels, Ports: []corev1.ServicePort{{Port: servingPort}}},
	}
}

// makeBudget allows one replica to be unavailable.
func makeBudget(namespace string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: setName},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: setLabels},
			MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}
}

// makeClient returns a pod that calls the address every 20 ms.
func makeClient(o options, address string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: clientName,
		Labels: map[string]string{"app": clientName}}, Spec: makePod(o.busybox)}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	c := &pod.Spec.Containers[0]
	c.Name, c.Command = clientName, []string{"/bin/sh", "-c", callScript, "call", fmt.Sprintf("http://%s:%d/filled", address, servingPort)}
	c.VolumeMounts, c.ReadinessProbe, c.Lifecycle = nil, nil, nil
	return pod
}

func makeSet(o options, size resource.Quantity) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.namespace, Name: setName, Labels: map[string]string{"app": setName, api.ManagedLabel: "true"},
			Annotations: map[string]string{api.StrategyAnnotation: o.strategy},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    ptr.To[int32](replicas),
			ServiceName: setName,
			Selector:    &metav1.LabelSelector{MatchLabels: setLabels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: setLabels},
				Spec:       makePod(o.busybox),
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: templateName},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &o.class,
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
				},
			}},
		},
	}
}

func makePod(image string) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		// The replica ends at once after it has drained. If the runtime overlooks its exit, this period limits the delay; the default is 30 s.
		TerminationGracePeriodSeconds: ptr.To[int64](10),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name:         containerName,
			Image:        image,
			Command:      []string{"/bin/sh", "-c", fillScript},
			VolumeMounts: []corev1.VolumeMount{{Name: templateName, MountPath: mountPath}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/filled", Port: intstr.FromInt32(servingPort)}},
				PeriodSeconds: 1,
			},
			// The replica serves until no new calls are routed to it.
			Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drainSeconds}}},
		}},
	}
}

const (
	// demoLabel marks a namespace that the demo may delete.
	demoLabel = "app.kubernetes.io/part-of"
	demoValue = "drydock-demo"
)

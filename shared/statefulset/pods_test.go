package statefulset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func requests(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

func limits(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

func containers(all ...corev1.ResourceRequirements) []corev1.Container {
	var made []corev1.Container
	for _, r := range all {
		made = append(made, corev1.Container{Resources: r})
	}
	return made
}

func sidecar(cpu string) corev1.Container {
	return corev1.Container{Resources: requests(cpu), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
}

func TestPodRequestsCountAsTheScheduler(t *testing.T) {
	one := containers(requests("1"))
	for situation, row := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"no request":                {corev1.PodSpec{Containers: containers(corev1.ResourceRequirements{})}, "0"},
		"the sum of the containers": {corev1.PodSpec{Containers: containers(requests("1"), requests("500m"))}, "1500m"},
		"a limit without a request": {corev1.PodSpec{Containers: containers(limits("2"))}, "2"},
		"a small init container":    {corev1.PodSpec{Containers: one, InitContainers: containers(requests("500m"))}, "1"},
		"a large init container":    {corev1.PodSpec{Containers: one, InitContainers: containers(requests("3"))}, "3"},
		"a sidecar":                 {corev1.PodSpec{Containers: one, InitContainers: []corev1.Container{sidecar("1")}}, "2"},
		"an init container after a sidecar": {corev1.PodSpec{Containers: one,
			InitContainers: append([]corev1.Container{sidecar("1")}, containers(requests("3"))...)}, "4"},
		"an init container before a sidecar": {corev1.PodSpec{Containers: one,
			InitContainers: append(containers(requests("3")), sidecar("1"))}, "3"},
		"a request of the pod": {corev1.PodSpec{Containers: one, Resources: ptr.To(requests("5"))}, "5"},
		"overhead": {corev1.PodSpec{Containers: one,
			Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}, "1250m"},
	} {
		got := PodRequests(&row.spec)[corev1.ResourceCPU]
		if want := resource.MustParse(row.want); got.Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", situation, got.String(), row.want)
		}
	}
}

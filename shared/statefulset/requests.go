package statefulset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PodRequest returns how much of the resource a pod with the spec requests from its node, as the scheduler counts it
// (kubernetes component-helpers resource.PodRequests). A request that a LimitRange adds is missing.
func PodRequest(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	total, ofPod := resource.Quantity{}, false
	if spec.Resources != nil {
		total, ofPod = requestIn(*spec.Resources, name)
	}
	if !ofPod {
		total = requestOfContainers(spec, name)
	}
	total.Add(spec.Overhead[name])
	return total
}

// requestOfContainers returns the larger of two sums: the containers with all sidecars, or an init container with the sidecars that were
// started before it.
func requestOfContainers(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	running, sidecars, starting := resource.Quantity{}, resource.Quantity{}, resource.Quantity{}
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		request, _ := requestIn(container.Resources, name)
		request.Add(sidecars)
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars = request.DeepCopy()
		}
		if request.Cmp(starting) > 0 {
			starting = request
		}
	}
	for i := range spec.Containers {
		request, _ := requestIn(spec.Containers[i].Resources, name)
		running.Add(request)
	}
	running.Add(sidecars)
	if starting.Cmp(running) > 0 {
		return starting
	}
	return running
}

// requestIn returns the request. Without one, the limit is the request, as in a pod (kubernetes pkg/apis/core/v1 SetDefaults_Pod).
func requestIn(resources corev1.ResourceRequirements, name corev1.ResourceName) (resource.Quantity, bool) {
	if request, found := resources.Requests[name]; found {
		return request.DeepCopy(), true
	}
	limit, found := resources.Limits[name]
	return limit.DeepCopy(), found
}

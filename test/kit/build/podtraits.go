package build

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/statefulset"
)

func traitsOfPod(p *corev1.Pod) []string {
	traits := []string{string(p.Status.Phase)}
	if _, ready := statefulset.ReadySince(p); !ready && p.Status.Phase == corev1.PodRunning {
		traits = append(traits, "not ready")
	}
	if p.Spec.NodeName == "" {
		traits = append(traits, "on no node")
	}
	var uses []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			uses = append(uses, v.PersistentVolumeClaim.ClaimName)
		}
	}
	if len(uses) > 0 {
		traits = append(traits, "uses "+strings.Join(uses, " "))
	}
	if is := p.Labels[appsv1.ControllerRevisionHashLabelKey]; is != "" {
		traits = append(traits, "revision "+is)
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		traits = append(traits, traitsOfContainer(c)...)
	}
	return traits
}

func traitsOfContainer(c corev1.ContainerStatus) []string {
	switch {
	case c.State.Waiting != nil:
		return []string{fmt.Sprintf("%s waits: %s", c.Name, c.State.Waiting.Reason)}
	case c.State.Terminated == nil:
		return nil
	}
	text := c.State.Terminated.Message
	report, err := moverreport.ParseMember([]byte(text))
	if text == "" || err != nil {
		return []string{fmt.Sprintf("%s ended: %s", c.Name, c.State.Terminated.Reason)}
	}
	words := fmt.Sprintf("%s reports %q", c.Name, report.Result)
	if report.Reason != "" {
		words += fmt.Sprintf(" %s", report.Reason)
	}
	if report.Signal != nil {
		words += fmt.Sprintf(" for hold %s attempt %d", report.Signal.Hold, report.Signal.Attempt)
	}
	return []string{words}
}

func traitsOfJob(j *batchv1.Job) []string {
	var traits []string
	for _, c := range j.Status.Conditions {
		traits = append(traits, strings.TrimSpace(string(c.Type)+" "+c.Reason))
	}
	return traits
}

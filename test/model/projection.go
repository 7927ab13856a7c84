package model

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// describe returns the facts about an object that the model shares with a real cluster: the facts that controllers, kubelets and the
// functions act on. It ignores annotations, sizes and times. It also ignores the set's status, which the controller computes from a cache.
func describe(o object) string {
	var words []string
	add := func(holds bool, format string, args ...any) {
		if holds {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		describeSet(o, add)
	case *appsv1.ControllerRevision:
		manifest, err := api.LoadManifest(o)
		add(err == nil && manifest != nil, "orders the set")
	case *corev1.PersistentVolumeClaim:
		add(true, "%s", o.Status.Phase)
		add(o.Spec.VolumeName != "", "on %s", o.Spec.VolumeName)
	case *corev1.PersistentVolume:
		describeVolume(o, add)
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			add(c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed, "%s", c.Type)
		}
	case *corev1.Pod:
		describePod(o, add)
	}
	add(o.GetDeletionTimestamp() != nil, "deleting")
	for _, finalizer := range o.GetFinalizers() {
		add(slices.Contains(finalizersOfModel, finalizer), "+%s", finalizer)
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		add(true, "of %s", owner.UID)
	}
	if len(words) == 0 {
		return "exists"
	}
	return strings.Join(words, " ")
}

// finalizersOfModel lists the finalizers that the model knows.
var finalizersOfModel = []string{protection, orphan, api.HoldFinalizer, api.FreezeFinalizer, batchv1.JobTrackingFinalizer}

type addWord = func(holds bool, format string, args ...any)

func describeSet(set *appsv1.StatefulSet, add addWord) {
	add(true, "replicas %d", statefulset.Replicas(set))
	record, err := api.LoadResize(set)
	if add(err != nil, "%v", err); err != nil || record == nil {
		return
	}
	add(true, "%s", record.Phase)
	for _, m := range record.Members {
		add(true, "%d:%s/%d", m.Ordinal, m.Phase, m.Attempt)
	}
}

func describeVolume(v *corev1.PersistentVolume, add addWord) {
	if ref := v.Spec.ClaimRef; ref != nil {
		uid := string(ref.UID)
		if uid == "" {
			uid = ref.Name + " without UID"
		}
		add(true, "for %s", uid)
	}
	phase := v.Status.Phase
	if phase == corev1.VolumePending { // the initial phase
		phase = ""
	}
	add(phase != "", "%s", phase)
	add(true, "%s", v.Spec.PersistentVolumeReclaimPolicy)
	claim, err := api.LoadClaim(v)
	add(err == nil && claim != nil, "with a claim to come")
}

func describePod(p *corev1.Pod, add addWord) {
	add(p.Spec.NodeName != "", "placed")
	add(true, "%s", p.Status.Phase)
	add(statefulset.PodReady(p) && p.Labels[batchv1.JobNameLabel] == "", "ready")
	add(p.Annotations[moverreport.SignalAnnotation] != "", "told to make its final pass")
	for _, c := range p.Status.InitContainerStatuses {
		ended := c.State.Terminated != nil && !resize.IsPin(p)
		add(ended && p.DeletionTimestamp == nil, "%s ended with %d", c.Name, exitOf(c))
		add(ended && p.DeletionTimestamp != nil, "%s ended", c.Name) // the kubelet ends it; the exit code may vary
	}
	add(resize.IsPin(p) && p.Status.Phase == corev1.PodRunning, "pins")
	add(p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 0) == 0, "unmounted")
}

func exitOf(c corev1.ContainerStatus) int32 {
	if c.State.Terminated == nil {
		return 0
	}
	return c.State.Terminated.ExitCode
}

// projection returns the description of every object.
func (w *World) projection(operation string) Projection {
	seen := Projection{}
	for k, e := range w.objects {
		seen[entryName(k.kind, k.name, operation)] = withoutOperation(describe(e.object), operation)
	}
	return seen
}

// Projection maps each object to its description.
type Projection map[string]string

func entryName(kind plan.Resource, name, operation string) string {
	return string(kind) + "/" + withoutOperation(name, operation)
}

// withoutOperation replaces the operation's id, which depends on the UID of the set.
func withoutOperation(text, operation string) string {
	if operation == "" {
		return text
	}
	return strings.ReplaceAll(text, operation, "OPERATION")
}

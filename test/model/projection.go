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

// describe says what the model and a real cluster have in common of an object: what controllers, kubelets and the functions act on. An
// annotation, a size or a time that differs makes no difference. The status of the set is left out: its controller writes it from a cache.
func describe(o object) string {
	var words []string
	say := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		describeSet(o, say)
	case *appsv1.ControllerRevision:
		manifest, err := api.LoadManifest(o)
		say(err == nil && manifest != nil, "orders the set")
	case *corev1.PersistentVolumeClaim:
		say(true, "%s", o.Status.Phase)
		say(o.Spec.VolumeName != "", "on %s", o.Spec.VolumeName)
	case *corev1.PersistentVolume:
		describeVolume(o, say)
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			say(c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed, "%s", c.Type)
		}
	case *corev1.Pod:
		describePod(o, say)
	}
	say(o.GetDeletionTimestamp() != nil, "deleting")
	for _, finalizer := range o.GetFinalizers() {
		say(slices.Contains(finalizersOfModel, finalizer), "+%s", finalizer)
	}
	if owner := metav1.GetControllerOf(o); owner != nil {
		say(true, "of %s", owner.UID)
	}
	if len(words) == 0 {
		return "exists"
	}
	return strings.Join(words, " ")
}

// finalizersOfModel are the finalizers of the model.
var finalizersOfModel = []string{protection, orphan, api.HoldFinalizer, api.SwitchFinalizer, batchv1.JobTrackingFinalizer}

type sayer = func(is bool, format string, args ...any)

func describeSet(set *appsv1.StatefulSet, say sayer) {
	say(true, "replicas %d", statefulset.Replicas(set))
	record, err := api.LoadResize(set)
	if say(err != nil, "%v", err); err != nil || record == nil {
		return
	}
	say(true, "%s", record.Phase)
	for _, m := range record.Members {
		say(true, "%d:%s/%d", m.Ordinal, m.Phase, m.Attempt)
	}
}

func describeVolume(v *corev1.PersistentVolume, say sayer) {
	if ref := v.Spec.ClaimRef; ref != nil {
		uid := string(ref.UID)
		if uid == "" {
			uid = ref.Name + " without UID"
		}
		say(true, "for %s", uid)
	}
	phase := v.Status.Phase
	if phase == corev1.VolumePending { // as it is created
		phase = ""
	}
	say(phase != "", "%s", phase)
	say(true, "%s", v.Spec.PersistentVolumeReclaimPolicy)
	claim, err := api.LoadClaim(v)
	say(err == nil && claim != nil, "with a claim to come")
}

func describePod(p *corev1.Pod, say sayer) {
	say(p.Spec.NodeName != "", "placed")
	say(true, "%s", p.Status.Phase)
	say(statefulset.PodReady(p) && p.Labels[batchv1.JobNameLabel] == "", "ready")
	say(p.Annotations[moverreport.SignalAnnotation] != "", "told to make its final pass")
	for _, c := range p.Status.InitContainerStatuses {
		ended := c.State.Terminated != nil && !resize.IsPin(p)
		say(ended && p.DeletionTimestamp == nil, "%s ended with %d", c.Name, exitOf(c))
		say(ended && p.DeletionTimestamp != nil, "%s ended", c.Name) // by the kubelet, one way or another
	}
	say(resize.IsPin(p) && p.Status.Phase == corev1.PodRunning, "pins")
	say(p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 0) == 0, "unmounted")
}

func exitOf(c corev1.ContainerStatus) int32 {
	if c.State.Terminated == nil {
		return 0
	}
	return c.State.Terminated.ExitCode
}

// projection says of every object what describe says.
func (w *World) projection(operation string) Projection {
	seen := Projection{}
	for k, e := range w.objects {
		seen[entryName(k.kind, k.name, operation)] = withoutOperation(describe(e.object), operation)
	}
	return seen
}

// Projection is what can be seen of a state, by object.
type Projection map[string]string

func entryName(kind plan.Resource, name, operation string) string {
	return string(kind) + "/" + withoutOperation(name, operation)
}

// withoutOperation replaces the id of the operation, which depends on the UID of the set.
func withoutOperation(text, operation string) string {
	if operation == "" {
		return text
	}
	return strings.ReplaceAll(text, operation, "OPERATION")
}

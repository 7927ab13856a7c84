package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Objects are the objects of a namespace that an operation creates or changes, and the volumes of its claims.
type Objects struct {
	Jobs      []batchv1.Job
	Pods      []corev1.Pod
	Revisions []appsv1.ControllerRevision
	Claims    []corev1.PersistentVolumeClaim
	Volumes   []corev1.PersistentVolume
}

// Leftovers returns the objects that an operation has left in the world (I9).
func (w *World) Leftovers() []string {
	w.T.Helper()
	return w.Objects().Leftovers()
}

// Objects reads the objects of the world.
func (w *World) Objects() Objects {
	w.T.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	jobs, err := w.Kube.BatchV1().Jobs(w.Namespace).List(ctx, all)
	w.must(err)
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, all)
	w.must(err)
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(ctx, all)
	w.must(err)
	return Objects{jobs.Items, pods.Items, w.Journals(), claims.Items, w.Volumes()}
}

// Leftovers returns the objects that an operation has left: everything with its label except retired volumes, every finalizer of Drydock,
// every temporary claim, and unneeded volumes.
func (o Objects) Leftovers() []string {
	var left []string
	for _, job := range o.Jobs {
		if job.Labels[api.OperationLabel] != "" {
			left = append(left, "job "+job.Name)
		}
	}
	for _, pod := range o.Pods {
		if pod.Labels[api.OperationLabel] != "" || slices.Contains(pod.Finalizers, api.HoldFinalizer) ||
			slices.Contains(pod.Finalizers, api.CleanupFinalizer) {
			left = append(left, "pod "+pod.Name)
		}
	}
	for _, revision := range o.Revisions {
		if revision.Labels[api.OperationLabel] != "" {
			left = append(left, "journal "+revision.Name)
		}
	}
	for _, claim := range o.Claims {
		if claim.Labels[api.OperationLabel] != "" || slices.Contains(claim.Finalizers, api.FreezeFinalizer) ||
			strings.HasPrefix(claim.Name, "drydock-") {
			left = append(left, "claim "+claim.Name)
		}
	}
	for _, v := range o.Volumes {
		retired := api.HasLink(&v, v.Labels[api.OperationLabel], api.RoleOldVolume) && v.Annotations[api.RetainedUntilAnnotation] != ""
		if !retired && (v.Labels[api.OperationLabel] != "" || v.Annotations[api.ReclaimPolicyAnnotation] != "" ||
			v.Status.Phase != corev1.VolumeBound) {
			left = append(left, fmt.Sprintf("volume %s (%s)", v.Name, v.Status.Phase))
		}
	}
	return left
}

// Journals returns the journals of operations.
func (w *World) Journals() []appsv1.ControllerRevision {
	w.T.Helper()
	list, err := w.Kube.AppsV1().ControllerRevisions(w.Namespace).List(context.Background(),
		metav1.ListOptions{LabelSelector: api.OperationLabel})
	w.must(err)
	return list.Items
}

// Volumes returns the volumes of the world's claims, including deleted claims.
func (w *World) Volumes() []corev1.PersistentVolume {
	w.T.Helper()
	all, err := w.Kube.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
	w.must(err)
	return slices.DeleteFunc(all.Items, func(v corev1.PersistentVolume) bool {
		return v.Spec.ClaimRef == nil || v.Spec.ClaimRef.Namespace != w.Namespace
	})
}

// Claim reads a claim. It returns nil if the claim does not exist.
func (w *World) Claim(name string) *corev1.PersistentVolumeClaim {
	w.T.Helper()
	list, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	w.must(err)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// ClaimProblems returns the breaches of I1. Each of the claims must be bound to a volume with the newest version of its data.
func (w *World) ClaimProblems(claims ...string) []string {
	w.T.Helper()
	problems := w.Node.Violations()
	for _, name := range claims {
		claim := w.Claim(name)
		if claim == nil || claim.Status.Phase != corev1.ClaimBound {
			problems = append(problems, "claim "+name+" is not bound")
			continue
		}
		if has, newest := w.Node.Version(claim.Spec.VolumeName, name); has != newest || newest == 0 {
			problems = append(problems, fmt.Sprintf("claim %s is on version %d, the newest is %d", name, has, newest))
		}
	}
	return problems
}

// Events returns type and reason of Drydock's Kubernetes Events on the StatefulSet.
func (w *World) Events(set string) []string {
	w.T.Helper()
	list, err := w.Kube.CoreV1().Events(w.Namespace).List(context.Background(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=StatefulSet,involvedObject.name=" + set})
	w.must(err)
	var reasons []string
	for _, e := range list.Items {
		if strings.HasPrefix(e.Source.Component, "drydock-") {
			reasons = append(reasons, e.Type+" "+e.Reason)
		}
	}
	return reasons
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// dump describes the pods, claims and volumes of the world, for a test that has waited in vain.
func (w *World) dump() string {
	var all []string
	ctx, everything := context.Background(), metav1.ListOptions{}
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, everything)
	if err != nil {
		return err.Error()
	}
	for _, o := range pods.Items {
		all = append(all, fmt.Sprintf("pod %s: on %q, %s, deleted %v, finalizers %v, %s", o.Name, o.Spec.NodeName, o.Status.Phase,
			o.DeletionTimestamp, o.Finalizers, condition(&o)))
	}
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(ctx, everything)
	if err != nil {
		return err.Error()
	}
	for _, o := range claims.Items {
		all = append(all, fmt.Sprintf("claim %s: on %q, %s, deleted %v", o.Name, o.Spec.VolumeName, o.Status.Phase, o.DeletionTimestamp))
	}
	for _, o := range w.Volumes() {
		all = append(all, fmt.Sprintf("volume %s: of claim %s, %s", o.Name, o.Spec.ClaimRef.Name, o.Status.Phase))
	}
	warnings, err := w.Kube.CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		return err.Error()
	}
	for _, o := range warnings.Items {
		all = append(all, fmt.Sprintf("warning of %s %s: %d times, last %v: %s: %s", o.InvolvedObject.Kind, o.InvolvedObject.Name,
			max(o.Count, 1), o.LastTimestamp, o.Reason, o.Message))
	}
	return strings.Join(all, "\n")
}

// condition describes the containers of a pod and the conditions that it does not fulfil.
func condition(pod *corev1.Pod) string {
	parts := []string{"IP " + pod.Status.PodIP}
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			parts = append(parts, fmt.Sprintf("%s %s since %v: %s %s", c.Type, c.Status, c.LastTransitionTime, c.Reason, c.Message))
		}
	}
	for _, c := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		parts = append(parts, fmt.Sprintf("container %s: ready %t, %d restarts, %s", c.Name, c.Ready, c.RestartCount, c.State.String()))
	}
	return strings.Join(parts, "; ")
}

// Violations returns the breaches of I1 so far.
func (n *Node) Violations() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.violations...)
}

// Version returns the version of the data on the volume, and the newest version of the claim.
func (n *Node) Version(volume, claim string) (has, newest int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.versions[volume], n.newest[claim]
}

package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Leftovers returns the objects that an operation has left in the world (I9): everything with its label except retired volumes, every
// finalizer of Drydock, every temporary claim, and unneeded volumes.
func (w *World) Leftovers() []string {
	w.T.Helper()
	ctx := context.Background()
	labelled := metav1.ListOptions{LabelSelector: api.OperationLabel}
	var left []string
	jobs, err := w.Kube.BatchV1().Jobs(w.Namespace).List(ctx, labelled)
	w.must(err)
	for _, o := range jobs.Items {
		left = append(left, "job "+o.Name)
	}
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{})
	w.must(err)
	for _, o := range pods.Items {
		if o.Labels[api.OperationLabel] != "" || slices.Contains(o.Finalizers, api.HoldFinalizer) {
			left = append(left, "pod "+o.Name)
		}
	}
	for _, o := range w.Journals() {
		left = append(left, "journal "+o.Name)
	}
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(ctx, metav1.ListOptions{})
	w.must(err)
	for _, o := range claims.Items {
		if o.Labels[api.OperationLabel] != "" || slices.Contains(o.Finalizers, api.FreezeFinalizer) ||
			strings.HasPrefix(o.Name, "drydock-") {
			left = append(left, "claim "+o.Name)
		}
	}
	for _, v := range w.Volumes() {
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
		all = append(all, fmt.Sprintf("pod %s: on %q, %s, deleted %v, finalizers %v", o.Name, o.Spec.NodeName, o.Status.Phase,
			o.DeletionTimestamp, o.Finalizers))
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
	return strings.Join(all, "\n")
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

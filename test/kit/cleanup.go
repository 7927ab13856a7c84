package kit

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// CleanupTemplate is the cleanup pod template of a user.
const CleanupTemplate = `
metadata:
  labels: {app: cleanup}
spec:
  containers:
    - name: move
      image: dev.local/busybox:1
      volumeMounts: [{name: data, mountPath: /data}]
`

// SetWithCleanup returns a WorldSet with a cleanup pod template, and guards its claims.
func (w *World) SetWithCleanup(name string, replicas int32, templates ...string) *appsv1.StatefulSet {
	if len(templates) == 0 {
		templates = []string{"data"}
	}
	set := WorldSet(name, replicas, "64Mi", templates...)
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	set.Annotations[api.CleanupTemplateAnnotation] = CleanupTemplate
	w.Node.Set(func(n *Node) { n.GuardClaims = true })
	return set
}

// UntilCounted ticks until the set's ledger has so many pods, and its template has been accepted.
func (w *World) UntilCounted(d *Drive, name string, pods int) {
	w.T.Helper()
	w.UntilCleanup(d, name, api.Succeeded, api.CleanupReady)
	w.Eventually(fmt.Sprintf("%d pods of %s are counted", pods, name), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if l := api.LoadLedger(w.Set(name)); l == nil || l.Count != pods || !l.Complete {
			return fmt.Sprintf("the ledger is %+v", l)
		}
		return ""
	})
}

// Cleanup reads the record of the set's latest cleanup, or returns nil.
func (w *World) Cleanup(name string) *api.Cleanup {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	doc, err := api.LoadCleanup(set)
	w.must(err)
	return doc
}

// UntilCleanup ticks until the set's cleanup has the phase, and the reason unless it is empty.
func (w *World) UntilCleanup(d *Drive, name string, phase api.Phase, reason api.Reason) *api.Cleanup {
	w.T.Helper()
	var doc *api.Cleanup
	w.Eventually(fmt.Sprintf("the cleanup of %s is %s %s", name, phase, reason), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if doc = w.Cleanup(name); doc == nil {
			return "there is none"
		}
		if doc.Phase != phase || reason != "" && doc.Reason != reason {
			return fmt.Sprintf("%s %s: %s; %+v", doc.Phase, doc.Reason, doc.Message, doc.Ordinals)
		}
		return ""
	})
	return doc
}

// CreateClaim creates a claim as a user would, with a volume, and waits until it is bound.
func (w *World) CreateClaim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	w.T.Helper()
	claim := WorldSet("web", 1, "64Mi", "data").Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Namespace, claim.Name, claim.Labels = w.Namespace, name, labels
	made, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim,
		metav1.CreateOptions{FieldManager: "kubectl"})
	w.must(err)
	_, err = w.Kube.CoreV1().PersistentVolumes().Create(context.Background(), makeVolume(made), metav1.CreateOptions{})
	w.must(err)
	w.Eventually("claim "+name+" is bound", func() string {
		if made = w.Claim(name); made.Status.Phase != corev1.ClaimBound {
			return string(made.Status.Phase)
		}
		return ""
	})
	return made
}

// ClaimUIDs returns the claims of the world with their UIDs, so that a test notices a replaced claim.
func (w *World) ClaimUIDs() string {
	w.T.Helper()
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	var uids []string
	for _, c := range claims.Items {
		uids = append(uids, fmt.Sprintf("%s=%s deleted %t", c.Name, c.UID, c.DeletionTimestamp != nil))
	}
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

// Kubectl runs kubectl in the world's namespace.
func (w *World) Kubectl(args ...string) string {
	w.T.Helper()
	command := exec.Command(Kubectl(w.T), append([]string{"--kubeconfig", APIPath(w.T), "--namespace", w.Namespace}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		w.T.Fatalf("kubectl %v: %v: %s", args, err, output)
	}
	return string(output)
}

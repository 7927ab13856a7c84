//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// deployed returns the set of a deployment tool, with an annotation, a pod annotation and a toleration that a later
// version of the manifest removes.
func deployed(class, size string) *appsv1.StatefulSet {
	set := kit.WorldSet("web", 1, size, "data")
	set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	set.Annotations["example.com/dropped"] = "later"
	set.Spec.Template.Annotations = map[string]string{"example.com/dropped": "later"}
	set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dropped", Operator: corev1.TolerationOpExists}}
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(class)
	return set
}

// manifestText returns the manifest without a status, as a user writes it.
func manifestText(t *testing.T, set *appsv1.StatefulSet) []byte {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	must(t, err)
	delete(fields, "status")
	text, err := yaml.Marshal(fields)
	must(t, err)
	return text
}

// write writes the manifest to a file.
func write(t *testing.T, set *appsv1.StatefulSet) string {
	t.Helper()
	text := manifestText(t, set)
	path := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestApplyAfterResizeNeedsNoForce: the managers of the set's fields are unchanged, even if the process dies between
// the creation of the new set and the write that restores its managedFields.
func TestApplyAfterResizeNeedsNoForce(t *testing.T) {
	t.Parallel()
	serverSide := []string{"apply", "--server-side", "--field-manager=gitops", "-f"}
	for name, row := range map[string]struct {
		class string
		apply []string
		crash bool
	}{
		"server-side at zero":              {kit.Class, serverSide, false},
		"server-side at zero with a crash": {kit.Class, serverSide, true},
		"server-side while it runs":        {kit.GrowingClass, serverSide, false},
		"client-side at zero":              {kit.Class, []string{"apply", "-f"}, false},
		"client-side while it runs":        {kit.GrowingClass, []string{"apply", "-f"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			apply := func(set *appsv1.StatefulSet) {
				t.Helper()
				if out, err := kubectl(t, w, append(slices.Clone(row.apply), write(t, set))...); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			apply(deployed(row.class, "64Mi"))
			drive := w.Drive(nil)
			untilReady(w, drive, "web", 1)
			before := w.Set("web")
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
			if row.crash {
				crashAfterCreation(w, before)
			}
			expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
			if w.Set("web").UID == before.UID {
				t.Fatal("the set was not created again")
			}
			bigger := deployed(row.class, "128Mi")
			apply(bigger)
			delete(bigger.Annotations, "example.com/dropped")
			bigger.Spec.Template.Annotations, bigger.Spec.Template.Spec.Tolerations = nil, nil
			apply(bigger)
			now := w.Set("web")
			pod := now.Spec.Template
			if now.Annotations["example.com/dropped"]+pod.Annotations["example.com/dropped"] != "" || len(pod.Spec.Tolerations) > 0 {
				t.Errorf("dropped fields stay: %v, %v, %v", now.Annotations, pod.Annotations, pod.Spec.Tolerations)
			}
			expectWhole(t, w, "web", 1, "data-web-0")
		})
	}
}

// crashAfterCreation runs functions that die before their first write after the set was created again.
func crashAfterCreation(w *kit.World, before *appsv1.StatefulSet) {
	w.T.Helper()
	saboteur := &kit.Saboteur{Failure: kit.DieBefore}
	saboteur.OnWrite = func(string) {
		if now := w.Set("web"); now != nil && now.UID != before.UID && saboteur.At == 0 {
			saboteur.At = len(saboteur.Writes()) + 1
		}
	}
	drive := w.Drive(saboteur)
	w.Eventually("the process has died", func() string {
		_ = drive.Tick(context.Background())
		if !saboteur.Dead() {
			return describe(w.Status("web"))
		}
		return ""
	})
	if status := w.Status("web"); status.Set.UID != "" {
		w.T.Fatalf("it died too late: %+v", status)
	}
}

// awaitRefusal waits until the API server refuses to create the set.
func awaitRefusal(w *kit.World) {
	w.T.Helper()
	w.Eventually("the creation is refused", func() string {
		set := w.Set("web")
		set.UID, set.ResourceVersion, set.ManagedFields = "", "", nil
		_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// TestSetThatCannotBeCreatedAgainIsNotDeleted: the API server would reject its creation. An update of the set does not
// show that.
func TestSetThatCannotBeCreatedAgainIsNotDeleted(t *testing.T) {
	t.Parallel()
	policy := func(w *kit.World) { w.DenyCreation("apps", "statefulsets", "false") }
	quota := func(hard string) func(*kit.World) {
		return func(w *kit.World) { w.CreateQuota("count/statefulsets.apps", hard) }
	}
	for name, row := range map[string]struct {
		class  string
		forbid func(*kit.World)
		says   string
	}{
		"a policy":                            {kit.Class, policy, "denied by a test"},
		"a policy, while it runs":             {kit.GrowingClass, policy, "denied by a test"},
		"a quota without room for one more":   {kit.Class, quota("1"), "exceeded quota"},
		"a quota that was lowered to nothing": {kit.Class, quota("0"), "exceeded quota"},
		"a quota, while it runs":              {kit.GrowingClass, quota("1"), "exceeded quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := kit.WorldSet("web", 2, "64Mi", "data")
			set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(row.class)
			w := kit.NewWorld(t)
			before := w.CreateSet(set)
			w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = true }) // the preflight does not find it yet
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
			drive := w.Drive(nil)
			w.Eventually("the request is taken", func() string {
				ticks(t, drive, 1)
				if status := w.Status("web"); status == nil || status.Phase == api.Planned {
					return describe(status)
				}
				return ""
			})
			row.forbid(w)
			awaitRefusal(w)
			w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = false })
			status := w.Finish(drive, "web")
			if status.Phase != api.Failed || status.Reason != api.RecreateRefused || !strings.Contains(status.Message, row.says) ||
				!strings.Contains(status.Message, "kubectl drydock retry") {
				t.Errorf("%s; want Failed RecreateRefused that says %q", describe(status), row.says)
			}
			if now := w.Set("web"); now.UID != before.UID {
				t.Error("the set was deleted")
			}
			expectEvents(t, w, "web", "Warning "+string(api.RecreateRefused))
			w.Eventually("the journal goes", func() string {
				ticks(t, drive, 1)
				return strings.Join(w.Leftovers(), ", ")
			})
			expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
		})
	}
}

// blockingOwner returns an owner reference that only an account with rights on the owner's finalizers may write.
func blockingOwner(kind, name string, uid any) string {
	return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":%q,"name":%q,"uid":"%v","blockOwnerDeletion":true}]}}`,
		kind, name, uid)
}

// TestOwnersThatBlockTheirDeletion: the API server runs with OwnerReferencesPermissionEnforcement. Set and claims are
// created again, and block the owner's deletion again if restore has the right.
func TestOwnersThatBlockTheirDeletion(t *testing.T) {
	t.Parallel()
	for kind, granted := range map[string]bool{"ConfigMap": false, "Secret": true} {
		t.Run(fmt.Sprintf("%s, granted %t", kind, granted), func(t *testing.T) {
			t.Parallel()
			w, ctx := kit.NewWorld(t), context.Background()
			w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			var owner metav1.Object
			var err error
			if granted {
				w.Grant("system:serviceaccount:drydock:restore", "update", "secrets/finalizers")
				owner, err = w.Kube.CoreV1().Secrets(w.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "main"}},
					metav1.CreateOptions{})
			} else {
				w.Expect(http.StatusForbidden, api.Restore, "it may not block the deletion of the owner")
				owner, err = w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(ctx,
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "main"}}, metav1.CreateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			w.PatchSet("web", blockingOwner(kind, "main", owner.GetUID()))
			w.PatchClaim("data-web-0", blockingOwner(kind, "main", owner.GetUID()))
			before := w.Set("web")
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
			drive := w.Drive(nil)
			expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
			now := w.Set("web")
			if now.UID == before.UID {
				t.Error("the set was not created again")
			}
			for what, owners := range map[string][]metav1.OwnerReference{"set": now.OwnerReferences,
				"claim": w.Claim("data-web-0").OwnerReferences} {
				if len(owners) != 1 || owners[0].UID != owner.GetUID() || ptr.Deref(owners[0].BlockOwnerDeletion, false) != granted {
					t.Errorf("%s: owners %+v", what, owners)
				}
			}
			expectWhole(t, w, "web", 1, "data-web-0")
		})
	}
}

// TestLateFinalizerKeepsSetFromDeletion: a deleted set would stay until the controller of the finalizer removes it.
func TestLateFinalizerKeepsSetFromDeletion(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Settings.CopyTimeout = 20 * time.Second
	before := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("the resize is under way", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status == nil || status.Phase != api.Moving {
			return describe(status)
		}
		return ""
	})
	w.PatchSet("web", `{"metadata":{"finalizers":["example.com/keep"]}}`)
	w.T.Cleanup(func() { w.PatchSet("web", `{"metadata":{"finalizers":null}}`) })
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = false })
	w.Eventually("the resize waits, and says why", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); !strings.Contains(status.Message, "example.com/keep") {
			return describe(status)
		}
		return ""
	})
	expectPhase(t, w.Finish(drive, "web"), api.Failed) // its message may be about the mover, which has the same time limit
	if now := w.Set("web"); now.UID != before.UID || now.DeletionTimestamp != nil {
		t.Error("the set was deleted")
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestResizedSetIsHeldForItsCleanup: its finalizer does not keep restore from replacing it, and the new set has it
// again.
func TestResizedSetIsHeldForItsCleanup(t *testing.T) {
	w, drive := heldWorld(t, 1)
	before := w.Set("web")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	now := w.Set("web")
	if now.UID == before.UID || !slices.Equal(now.Finalizers, []string{api.CleanupFinalizer}) || now.Labels[api.FinalizerLabel] == "" {
		t.Errorf("created again %t, finalizers %v, labels %v", now.UID != before.UID, now.Finalizers, now.Labels)
	}
}

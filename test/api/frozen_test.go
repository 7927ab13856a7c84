package api

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// frozen makes a world with the policies, in which a resize holds the set at zero until the movers are let go.
func frozen(t *testing.T) (*kit.World, *kit.Drive) {
	t.Helper()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.InstallPolicies()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	held := false
	drive := w.Drive(&kit.Saboteur{OnWrite: func(string) {
		if set := w.Set("web"); !held && set != nil && set.Labels[api.FrozenLabel] != "" {
			held = true
			w.Node.Set(func(n *kit.Node) { n.Hold = true })
		}
	}})
	w.Eventually("the movers of a frozen set run", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); !held || status.Phase != api.Copying || status.Claims[0].Phase != api.ClaimCopying {
			return "they do not"
		}
		return ""
	})
	w.ScalesFrozen("web")
	return w, drive
}

// as is a client that the API server takes for the account.
func as(w *kit.World, user string) *kit.World {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	return &kit.World{T: w.T, Namespace: w.Namespace, Config: config, Kube: kubernetes.NewForConfigOrDie(config)}
}

// kubectl runs as an administrator.
func kubectl(t *testing.T, w *kit.World, args ...string) (string, error) {
	t.Helper()
	output, err := exec.Command(kit.Kubectl(t), append([]string{"--kubeconfig", kit.APIPath(t), "-n", w.Namespace}, args...)...).CombinedOutput()
	return string(output), err
}

// manifest writes what a deployment tool has of the set to a file.
func manifest(t *testing.T, replicas int32) string {
	t.Helper()
	set := kit.WorldSet("web", replicas, "64Mi", "data")
	set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	text, err := yaml.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func merge(w *kit.World, set, body string) error {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

// expectDenied checks that the answer says who refuses, where to look and what to do.
func expectDenied(t *testing.T, what, answer string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: it was allowed", what)
		return
	}
	answer = strings.Join(strings.Fields(answer+" "+err.Error()), " ")
	for _, says := range []string{"forbidden", "Drydock holds this StatefulSet at zero", "annotation drydock.dev/status", api.AbortAnnotation, api.RetryAnnotation} {
		if !strings.Contains(answer, says) {
			t.Errorf("%s: %q does not say %q", what, answer, says)
		}
	}
}

func TestI4NobodyElseScalesAFrozenSetUp(t *testing.T) {
	t.Parallel()
	w, drive := frozen(t)
	before := w.Set("web")

	out, err := kubectl(t, w, "scale", "sts/web", "--replicas=2")
	expectDenied(t, "kubectl scale", out, err)
	expectDenied(t, "a patch", "", merge(w, "web", `{"spec":{"replicas":2}}`))
	expectDenied(t, "a patch by the scale subresource", "", w.TryScaleTo("web", 1))
	expectDenied(t, "a patch that thaws it at the same time", "", merge(w, "web", `{"metadata":{"labels":{"drydock.dev/frozen":null}},"spec":{"replicas":2}}`))
	expectDenied(t, "a patch that opts out at the same time", "", merge(w, "web", `{"metadata":{"labels":{"drydock.dev/managed":null}},"spec":{"replicas":2}}`))
	whole := w.Set("web")
	whole.UID, whole.ResourceVersion, whole.Labels, whole.Annotations = "", "", nil, nil
	*whole.Spec.Replicas = 2
	_, err = w.Kube.AppsV1().StatefulSets(w.Namespace).Update(context.Background(), whole, metav1.UpdateOptions{})
	expectDenied(t, "an update that replaces everything", "", err)
	out, err = kubectl(t, w, "apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", manifest(t, 2))
	expectDenied(t, "a server-side apply", out, err)
	out, err = kubectl(t, w, "apply", "-f", manifest(t, 2))
	expectDenied(t, "an apply", out, err)
	for _, user := range []string{"system:serviceaccount:kube-system:horizontal-pod-autoscaler", "system:serviceaccount:argocd:argocd-application-controller",
		"system:serviceaccount:drydock-shop:restore", "drydock", "system:admin"} {
		expectDenied(t, user, "", as(w, user).TryScaleTo("web", 3))
		expectDenied(t, user, "", merge(as(w, user), "web", `{"spec":{"replicas":3}}`))
	}
	// drydock-standalone out of the cluster, as an administrator: it may write Drydock's documents.
	own := metav1.PatchOptions{FieldManager: api.FieldManager, DryRun: []string{metav1.DryRunAll}}
	if _, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), own); err != nil {
		t.Errorf("Drydock's own write as an administrator: %v", err)
	}
	tenant := tenantOf(t, w)
	_, err = tenant.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), own)
	expectDenied(t, "a tenant who takes Drydock's name", "", err)
	if now := w.Set("web"); now.Generation != before.Generation || now.Labels[api.FrozenLabel] != "true" {
		t.Errorf("the set was written to: generation %d, then %d; labels %v", before.Generation, now.Generation, now.Labels)
	}

	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round != 1 {
		t.Errorf("round %d: the copy was made again", status.Round)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

func TestI4WhatAFrozenSetMayStillBeGiven(t *testing.T) {
	t.Parallel()
	w, drive := frozen(t)
	w.CreateSet(kit.WorldSet("other", 1, "64Mi", "data"))
	for what, err := range map[string]error{
		"scaling another set":                w.TryScaleTo("other", 2),
		"patching another set":               merge(w, "other", `{"spec":{"replicas":3}}`),
		"scaling to zero":                    w.TryScaleTo("web", 0),
		"patching it to zero":                merge(w, "web", `{"spec":{"replicas":0}}`),
		"a label and an annotation":          merge(w, "web", `{"metadata":{"labels":{"tier":"db"},"annotations":{"note":"mine"}}}`),
		"its status":                         patchStatus(w),
		"a dry run by Drydock":               as(w, "system:serviceaccount:drydock:restore").TryScaleTo("web", 2, metav1.DryRunAll),
		"a dry run by the standalone engine": as(w, "system:serviceaccount:drydock:drydock-standalone").TryScaleTo("web", 2, metav1.DryRunAll),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if out, err := kubectl(t, w, "apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", manifest(t, 0)); err != nil {
		t.Errorf("applying it with zero replicas: %v: %s", err, out)
	}
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	soonThawed(w)
}

func patchStatus(w *kit.World) error {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), "web", types.MergePatchType,
		[]byte(`{"status":{"observedGeneration":0}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	return err
}

// soonThawed waits until everybody may scale the set again.
func soonThawed(w *kit.World) {
	w.T.Helper()
	w.Eventually("anybody may scale the set", func() string {
		if err := w.TryScaleTo("web", 3); err != nil {
			return err.Error()
		}
		return ""
	})
}

// TestI4ADeploymentToolThatNeverGivesUpCostsNothing: with the policy a tool that puts replicas back after each write has no
// copy made again; test/sim shows that all ends well without it, too.
func TestI4ADeploymentToolThatNeverGivesUpCostsNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.InstallPolicies()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"}) // creates the set again, frozen
	denied, uids := 0, map[types.UID]bool{}
	tool := &kit.Saboteur{OnWrite: func(string) {
		set := w.Set("web")
		if set == nil || set.DeletionTimestamp != nil || set.Labels[api.FrozenLabel] == "" {
			return
		}
		uids[set.UID] = true
		w.ScalesFrozen("web")
		err := merge(w, "web", `{"spec":{"replicas":2}}`)
		expectDenied(t, "the tool", "", err)
		denied++
	}}
	status := w.Finish(w.Drive(tool), "web")
	expectPhase(t, status, api.Succeeded)
	if status.Round != 1 || denied < 5 || len(uids) != 2 {
		t.Errorf("round %d, %d times denied, on sets %v", status.Round, denied, uids)
	}
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

func TestI4AnAbortThawsAFrozenSet(t *testing.T) {
	t.Parallel()
	w, drive := frozen(t)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	soonThawed(w)
}

// TestI4AFrozenSetWithoutDrydock: whoever takes the label off may scale the set.
func TestI4AFrozenSetWithoutDrydock(t *testing.T) {
	t.Parallel()
	w, _ := frozen(t)
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	if out, err := kubectl(t, w, "label", "sts/web", "drydock.dev/frozen-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.Eventually("it may be scaled", func() string {
		if out, err := kubectl(t, w, "scale", "sts/web", "--replicas=2"); err != nil {
			return out
		}
		return ""
	})
	w.Eventually("it runs", func() string {
		if w.Set("web").Status.ReadyReplicas != 2 {
			return "it does not"
		}
		return ""
	})
	for _, problem := range w.Whole("data-web-0", "data-web-1") {
		t.Error(problem)
	}
}

// TestI3AFrozenSetIsDeletedAndAppliedAgain: the new set has no label, and Drydock undoes what it had begun.
func TestI3AFrozenSetIsDeletedAndAppliedAgain(t *testing.T) {
	t.Parallel()
	w, drive := frozen(t)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	again := w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	if err := w.TryScaleTo("web", 1); err != nil {
		t.Errorf("scaling the new set: %v", err)
	}
	w.Scale("web", 2)
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	w.Eventually("the operation is undone", func() string {
		_ = drive.Tick(context.Background())
		if left := w.Leftovers(); len(left) > 0 {
			return left[0]
		}
		return ""
	})
	if now := w.Set("web"); now.UID != again.UID {
		t.Error("the user's new set was replaced")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestI4AFrozenSetThatLostItsStatusIsGivenBack: a tool that replaces all annotations, and a set made from the manifest of a
// frozen one.
func TestI4AFrozenSetThatLostItsStatusIsGivenBack(t *testing.T) {
	t.Parallel()
	w, drive := frozen(t)
	w.PatchSet("web", `{"metadata":{"annotations":null}}`)
	clone := kit.WorldSet("clone", 0, "64Mi", "data")
	clone.Labels[api.FrozenLabel] = "true"
	w.CreateSet(clone)
	w.ScalesFrozen("clone")
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	w.Eventually("both are thawed", func() string {
		if err := drive.Tick(context.Background()); err != nil && !apierrors.IsConflict(err) {
			return err.Error()
		}
		if left := w.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		return ""
	})
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	if replicas := *w.Set("clone").Spec.Replicas; replicas != 0 {
		t.Errorf("the clone was given %d replicas that it never had", replicas)
	}
}

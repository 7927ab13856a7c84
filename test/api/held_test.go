//go:build cluster

package api

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// asUser returns a client that impersonates the account.
func asUser(w *kit.World, user string) *kit.World {
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters", "system:authenticated"}}
	return &kit.World{T: w.T, Namespace: w.Namespace, Config: config, Kube: kubernetes.NewForConfigOrDie(config)}
}

// kubectl runs kubectl as an administrator.
func kubectl(t *testing.T, w *kit.World, args ...string) (string, error) {
	t.Helper()
	output, err := exec.Command(kit.Kubectl(t), append([]string{"--kubeconfig", kit.APIPath(t), "-n", w.Namespace},
		args...)...).CombinedOutput()
	return string(output), err
}

// manifestFile writes the manifest of a deployment tool to a file.
func manifestFile(t *testing.T, replicas int32) string {
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
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set, types.MergePatchType, []byte(body),
		metav1.PatchOptions{})
	return err
}

// recordOf returns the annotation with a resize record whose members are in the phases.
func recordOf(phase api.Phase, members ...api.MemberPhase) map[string]string {
	record := &api.Resize{Header: api.Header{Version: api.RecordVersion, Operation: operation, Kind: api.KindResize, Phase: phase}}
	for i, m := range members {
		record.Members = append(record.Members, api.Member{Ordinal: i, Phase: m})
	}
	return map[string]string{api.StatusAnnotation: record.Encode()}
}

// The policies that deny to raise the replicas of a StatefulSet with held members: by a write to the set, and by its subresource scale.
const (
	heldSetsPolicy   = "drydock-held-sets"
	heldScalesPolicy = "drydock-held-scales"
)

// expectDenied checks that the policy has denied the request, and that the answer names the cause, the annotation with the progress and
// the annotation that aborts.
func expectDenied(t *testing.T, what, policy, answer string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: it was allowed", what)
		return
	}
	answer = strings.Join(strings.Fields(answer+" "+err.Error()), " ")
	if words := []string{"forbidden", policy + "'", "Parallel", api.StatusAnnotation, api.AbortAnnotation}; !mentions(answer, words...) {
		t.Errorf("%s: %q, want it to mention %q", what, answer, words)
	}
}

// TestReplicasCannotBeRaisedWhileMembersAreHeld by any write of any user. With parallel pod management the new members
// would start beside the held ones.
func TestReplicasCannotBeRaisedWhileMembersAreHeld(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallPolicies()
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	for _, held := range []map[string]string{recordOf(api.Moving, api.MemberMoved, api.MemberStopping),
		recordOf(api.Moving, api.MemberFinalPass),
		recordOf(api.Reverting, api.MemberKept, api.MemberSwapping)} {
		w.Annotate("web", held)
		w.AwaitScaleUpDenied("web")
		out, err := kubectl(t, w, "scale", "sts/web", "--replicas=2")
		expectDenied(t, "kubectl scale", heldScalesPolicy, out, err)
		expectDenied(t, "a patch", heldSetsPolicy, "", merge(w, "web", `{"spec":{"replicas":2}}`))
		for what, metadata := range map[string]string{
			"removes the record": `{"annotations":null}`, "opts out": `{"labels":{"drydock.dev/managed":null}}`,
		} {
			err := merge(w, "web", `{"metadata":`+metadata+`,"spec":{"replicas":2}}`)
			expectDenied(t, "a patch that also "+what, heldSetsPolicy, "", err)
		}
		out, err = kubectl(t, w, "apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", manifestFile(t, 2))
		expectDenied(t, "a server-side apply", heldSetsPolicy, out, err)
		for _, user := range []string{"system:serviceaccount:kube-system:horizontal-pod-autoscaler",
			"system:serviceaccount:argocd:argocd-application-controller",
			"system:serviceaccount:drydock:scale", "system:admin"} {
			expectDenied(t, user, heldScalesPolicy, "", asUser(w, user).TryScaleTo("web", 3))
			expectDenied(t, user, heldSetsPolicy, "", merge(asUser(w, user), "web", `{"spec":{"replicas":3}}`))
		}
	}
}

// TestReplicasOfOtherSetsMayBeRaised: no member is held, or the pod management is ordered.
func TestReplicasOfOtherSetsMayBeRaised(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallPolicies()
	held := kit.WorldSet("held", 2, "64Mi", "data")
	held.Annotations = recordOf(api.Moving, api.MemberSwapping)
	w.CreateSet(held)
	w.AwaitScaleUpDenied("held")
	for what, err := range map[string]error{
		"scaling the set down":     w.TryScaleTo("held", 1, metav1.DryRunAll),
		"patching it down":         merge(w, "held", `{"spec":{"replicas":1}}`),
		"a label and a note on it": merge(w, "held", `{"metadata":{"labels":{"tier":"db"},"annotations":{"note":"mine"}}}`),
		"its status":               patchStatus(w, "held"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"none": func(*appsv1.StatefulSet) {},
		"copying": func(s *appsv1.StatefulSet) {
			s.Annotations = recordOf(api.Moving, api.MemberCopying, api.MemberWaiting)
		},
		"starting": func(s *appsv1.StatefulSet) { s.Annotations = recordOf(api.Moving, api.MemberStarting, api.MemberMoved) },
		"ended":    func(s *appsv1.StatefulSet) { s.Annotations = recordOf(api.Failed, api.MemberStopping) },
		"ordered": func(s *appsv1.StatefulSet) {
			s.Spec.PodManagementPolicy, s.Annotations = appsv1.OrderedReadyPodManagement, held.Annotations
		},
		"unmanaged": func(s *appsv1.StatefulSet) { s.Labels, s.Annotations = nil, held.Annotations },
	} {
		set := kit.WorldSet(name, 1, "64Mi")
		set.Annotations = nil
		change(set)
		w.CreateSet(set)
		if err := w.TryScaleTo(name, 2, metav1.DryRunAll); err != nil {
			t.Errorf("scaling set %s: %v", name, err)
		}
		if err := merge(w, name, `{"spec":{"replicas":2}}`); err != nil {
			t.Errorf("patching set %s: %v", name, err)
		}
	}
}

func patchStatus(w *kit.World, set string) error {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set, types.MergePatchType,
		[]byte(`{"status":{"observedGeneration":0}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
	return err
}

// TestScaleUpDuringHoldIsRefusedAndResizeSucceeds: an autoscaler gets its replicas when the members are back.
func TestScaleUpDuringHoldIsRefusedAndResizeSucceeds(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallPolicies()
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Hold = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("every member is held", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		record := w.Status("web")
		if record == nil || len(record.Members) != 2 {
			return "there is no record"
		}
		for _, m := range record.Members {
			if m.Phase != api.MemberFinalPass {
				return string(m.Phase) + ": " + record.Message
			}
		}
		return ""
	})
	w.AwaitScaleUpDenied("web")
	expectDenied(t, "an autoscaler", heldScalesPolicy, "", w.TryScaleTo("web", 3))
	expectDenied(t, "a patch", heldSetsPolicy, "", merge(w, "web", `{"spec":{"replicas":3}}`))
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	if record := w.Finish(drive, "web"); record.Phase != api.Succeeded {
		t.Fatalf("phase %s: %s: %s", record.Phase, record.Reason, record.Message)
	}
	w.Eventually("the set may be scaled", func() string {
		if err := w.TryScaleTo("web", 3); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, problem := range w.ClaimProblems("data-web-0", "data-web-1") {
		t.Error(problem)
	}
}

// TestResizeOfStoppedSetLocksMembers: a lock pod that never runs takes the name of a member without a pod. The fences
// allow it, and nothing is left.
func TestResizeOfStoppedSetLocksMembers(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Scale("web", 0)
	w.Eventually("the set is at zero", func() string {
		if w.Set("web").Status.Replicas != 0 {
			return "it is not"
		}
		return ""
	})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	if record := w.Finish(w.Drive(nil), "web"); record.Phase != api.Succeeded {
		t.Fatalf("phase %s: %s: %s", record.Phase, record.Reason, record.Message)
	}
	if left := w.Leftovers(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	w.Scale("web", 2)
	w.Eventually("both members run", func() string {
		if w.Set("web").Status.ReadyReplicas != 2 {
			return "not both"
		}
		return ""
	})
	for _, problem := range w.ClaimProblems("data-web-0", "data-web-1") {
		t.Error(problem)
	}
}

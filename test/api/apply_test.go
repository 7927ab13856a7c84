//go:build cluster

package api

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// applied is a world with a set that its user edits and applies. Its class expands online.
type applied struct {
	*kit.World
	t     *testing.T
	drive *kit.Drive
	apply []string // the arguments of kubectl before the file
}

var (
	clientSide = []string{"apply", "-f"}
	serverSide = []string{"apply", "--server-side", "-f"}
)

func applyWorld(t *testing.T, apply []string, class string) *applied {
	t.Helper()
	w := kit.NewWorld(t)
	w.InstallApply()
	a := &applied{w, t, w.Drive(nil), apply}
	a.applySet(deployed(class, "64Mi"))
	untilReady(w, a.drive, "web", 1)
	return a
}

// applySet runs kubectl apply with the set, and returns the output.
func (a *applied) applySet(set *appsv1.StatefulSet) string {
	a.t.Helper()
	said, err := kubectl(a.t, a.World, append(slices.Clone(a.apply), write(a.t, set))...)
	if err != nil {
		a.t.Fatalf("%v: %s", err, said)
	}
	return said
}

// expectRejected runs kubectl apply with the set, and expects an error of the API server.
func (a *applied) expectRejected(set *appsv1.StatefulSet) {
	a.t.Helper()
	a.expectUnchanged("the API server refuses", func() {
		said, err := kubectl(a.t, a.World, append(slices.Clone(a.apply), write(a.t, set))...)
		if err == nil || !strings.Contains(said, "Forbidden: updates to statefulset spec for fields other than") {
			a.t.Errorf("error %v: %s", err, said)
		}
	})
}

// expectRequest expects that an apply has made the request, and that the template still has the size.
func (a *applied) expectRequest(request, size string) {
	a.t.Helper()
	set := a.Set("web")
	if got := set.Annotations[api.ResizeAnnotation]; got != request {
		a.t.Errorf("the set asks for %q, want %q", got, request)
	}
	if got := set.Annotations[api.ResizeAppliedAnnotation]; got != request {
		a.t.Errorf("an apply has asked for %q, want %q", got, request)
	}
	if got := templateSize(set); got != size {
		a.t.Errorf("the template has %s, want %s", got, size)
	}
}

// untilPhase waits until the latest operation has the phase. An earlier operation may have ended before.
func (a *applied) untilPhase(phase api.Phase) {
	a.t.Helper()
	a.Eventually("the operation is "+string(phase), func() string {
		if err := a.drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := a.Status("web"); status.Phase != phase {
			return describe(status)
		}
		return ""
	})
}

func templateSize(set *appsv1.StatefulSet) string {
	return set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()
}

// expectMentions checks that the text contains every word.
func expectMentions(t *testing.T, text string, words ...string) {
	t.Helper()
	if !mentions(text, words...) {
		t.Errorf("got %q, want it to mention %q", text, words)
	}
}

// expectWarning checks that kubectl prints a warning of the policy drydock-templates that mentions every word.
func expectWarning(t *testing.T, output string, words ...string) {
	t.Helper()
	expectMentions(t, output, append(words, "Warning: ", "drydock-templates'")...)
}

// TestAppliedTemplatesBecomeRequest: a manifest with larger templates resizes the volumes and then the templates.
// Applying it again changes nothing, before and after the resize.
func TestAppliedTemplatesBecomeRequest(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string][]string{"client-side": clientSide, "server-side": serverSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, apply, kit.GrowingClass)
			bigger := deployed(kit.GrowingClass, "128Mi")
			bigger.Spec.Template.Spec.Containers[0].Image = "dev.local/busybox:1"
			expectWarning(t, a.applySet(bigger), "data=128Mi+")
			a.expectRequest("data=128Mi+", "64Mi")
			a.expectNoWriteByApply(bigger)
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			expectSize(t, a.World, "128Mi", "data-web-0")
			a.expectRequest("data=128Mi+", "128Mi")
			a.expectNoWriteByApply(bigger)
			if said, err := kubectl(t, a.World, slices.Concat([]string{"diff"}, apply[1:], []string{write(t, bigger)})...); err != nil {
				t.Errorf("kubectl diff: %v: %s", err, said)
			}
			a.expectRejected(deployed(kit.GrowingClass, "64Mi"))
			expectWhole(t, a.World, "web", 1, "data-web-0")
		})
	}
}

// expectNoWriteByApply applies the set and expects no change of it.
func (a *applied) expectNoWriteByApply(set *appsv1.StatefulSet) {
	a.t.Helper()
	a.expectUnchanged("the same manifest is applied", func() { a.applySet(set) })
}

// expectUnchanged expects no change of the set. It ignores the status, which the controller may write at any time, and the
// times in managedFields. After two concurrent writes the API server stores the later time.
func (a *applied) expectUnchanged(when string, do func()) {
	a.t.Helper()
	written := func() *appsv1.StatefulSet {
		set := a.Set("web")
		set.Status, set.ResourceVersion = appsv1.StatefulSetStatus{}, ""
		set.ManagedFields = slices.DeleteFunc(set.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Subresource != "" })
		for i := range set.ManagedFields {
			set.ManagedFields[i].Time = nil
		}
		slices.SortFunc(set.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int { // the API server sorts them by time
			return strings.Compare(a.Manager+" "+string(a.Operation), b.Manager+" "+string(b.Operation))
		})
		return set
	}
	before := written()
	do()
	if diff := cmp.Diff(before, written()); diff != "" {
		a.t.Errorf("%s, and the set is written: %s", when, diff)
	}
}

// TestWaysToWriteTemplates: templates may be changed by every kubectl command that writes a set.
func TestWaysToWriteTemplates(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(a *applied) (string, error){
		"replace": func(a *applied) (string, error) {
			return kubectl(a.t, a.World, "replace", "-f", write(a.t, deployed(kit.Class, "128Mi")))
		},
		"edit": func(a *applied) (string, error) {
			edit := exec.Command(kit.Kubectl(a.t), "--kubeconfig", kit.APIPath(a.t), "-n", a.Namespace, "edit", "sts/web")
			edit.Env = append(os.Environ(), "KUBE_EDITOR=sed -i s/64Mi/128Mi/")
			said, err := edit.CombinedOutput()
			return string(said), err
		},
		"a JSON patch": func(a *applied) (string, error) {
			return kubectl(a.t, a.World, "patch", "sts/web", "--type=json", "-p",
				`[{"op":"replace","path":"/spec/volumeClaimTemplates/0/spec/resources/requests/storage","value":"128Mi"}]`)
		},
		"a server-side dry run and then an apply": func(a *applied) (string, error) {
			if _, err := kubectl(a.t, a.World, "apply", "--dry-run=server", "-f", write(a.t, deployed(kit.Class, "128Mi"))); err != nil {
				return "", err
			}
			if asked := a.Set("web").Annotations[api.ResizeAnnotation]; asked != "" {
				a.t.Errorf("the dry run has asked for %s", asked)
			}
			return a.applySet(deployed(kit.Class, "128Mi")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, clientSide, kit.Class)
			if said, err := write(a); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			a.expectRequest("data=128Mi+", "64Mi")
		})
	}
}

// edited returns the deployed set with a change.
func edited(size string, change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := deployed(kit.Class, size)
	change(set)
	return set
}

// TestUnsupportedTemplateChangesAreRejected: the API server rejects a change that could stop members, that no request
// can express, or of a set that Drydock does not manage. Nothing is stored.
func TestUnsupportedTemplateChangesAreRejected(t *testing.T) {
	t.Parallel()
	annotated := func(value string) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { s.Annotations[api.TemplatesAnnotation] = value }
	}
	template := func(change func(*corev1.PersistentVolumeClaim)) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) { change(&s.Spec.VolumeClaimTemplates[0]) }
	}
	other := kit.GrowingClass
	a := applyWorld(t, clientSide, kit.Class)
	for name, set := range map[string]*appsv1.StatefulSet{
		"smaller":       edited("32Mi", func(*appsv1.StatefulSet) {}),
		"another class": edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &other })),
		"another access mode": edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		})),
		"no class":                  edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })),
		"turned off":                edited("128Mi", annotated("off")),
		"a word that means nothing": edited("128Mi", annotated("all")),
		"a limit": edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		})),
		"another selector": edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		})),
		"not opted in":    edited("128Mi", func(s *appsv1.StatefulSet) { delete(s.Labels, api.ManagedLabel) }),
		"another request": edited("128Mi", func(s *appsv1.StatefulSet) { s.Annotations[api.ResizeAnnotation] = "data=256Mi" }),
		"no such quantity": edited("128Mi", template(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("0")
		})),
	} {
		t.Run(name, func(t *testing.T) {
			a := *a
			a.t = t
			a.expectRejected(set)
		})
	}
	t.Run("of a controller", func(t *testing.T) {
		a.AddController("web")
		a := *a
		a.t = t
		a.expectRejected(edited("128Mi", func(*appsv1.StatefulSet) {}))
	})
}

// TestAnyTemplates: with drydock.dev/templates=any a manifest may request everything that the annotation may.
func TestAnyTemplates(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.Class)
	smaller := deployed(kit.GrowingClass, "32Mi")
	smaller.Annotations[api.TemplatesAnnotation] = "any"
	smaller.Spec.VolumeClaimTemplates[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	a.applySet(smaller)
	a.expectRequest("data=32Mi@"+kit.GrowingClass+":RWX", "64Mi")
	smaller.Spec.VolumeClaimTemplates[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	a.applySet(smaller)
	a.expectRequest("data=32Mi@"+kit.GrowingClass, "64Mi")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	expectSize(t, a.World, "32Mi", "data-web-0")
	a.expectNoWriteByApply(smaller)
	a.expectRequest("data=32Mi@"+kit.GrowingClass, "32Mi")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestLargerClaimsDoNotShrink: the claim is larger than the manifest, because a user has expanded it.
func TestLargerClaimsDoNotShrink(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.GrowingClass)
	a.PatchClaim("data-web-0", `{"spec":{"resources":{"requests":{"storage":"256Mi"}}}}`)
	a.applySet(deployed(kit.GrowingClass, "128Mi"))
	status := a.Finish(a.drive, "web")
	expectPhase(t, status, api.Succeeded)
	expectSize(t, a.World, "256Mi", "data-web-0")
	a.expectRequest("data=128Mi+", "128Mi")
	if len(status.Members) > 0 {
		t.Errorf("members were moved: %+v", status.Members)
	}
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestApplyOfOldTemplatesWithdrawsRequest: it withdraws a request that an apply has made, and no other request.
func TestApplyOfOldTemplatesWithdrawsRequest(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string][]string{"client-side": clientSide, "server-side": serverSide} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applyWorld(t, apply, kit.Class)
			a.applySet(deployed(kit.Class, "128Mi"))
			expectWarning(t, a.applySet(deployed(kit.Class, "96Mi")), "data=96Mi+")
			a.expectRequest("data=96Mi+", "64Mi")
			a.Kubectl("annotate", "sts/web", "example.com/note=1")
			a.Kubectl("scale", "sts/web", "--replicas=2")
			a.expectRequest("data=96Mi+", "64Mi")
			a.Scale("web", 1)
			expectWarning(t, a.applySet(deployed(kit.Class, "64Mi")), "data=96Mi+")
			a.expectRequest("", "64Mi")
			a.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"}) // by a user
			a.applySet(deployed(kit.Class, "64Mi"))
			if asked := a.Set("web").Annotations[api.ResizeAnnotation]; asked != "data=128Mi" {
				t.Errorf("the set asks for %q", asked)
			}
		})
	}
}

// TestWithdrawalEndsOperation: the withdrawal ends a running operation before any member has moved. The manifest can be
// applied again, and is then carried out.
func TestWithdrawalEndsOperation(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.Class)
	a.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverApprove})
	a.applySet(deployed(kit.Class, "128Mi"))
	a.Eventually("the member waits for an approval", func() string {
		_ = a.drive.Tick(t.Context())
		if status := a.Status("web"); status == nil || len(status.Members) != 1 || status.Members[0].Phase != api.MemberWaiting {
			return describe(status)
		}
		return ""
	})
	expectWarning(t, a.applySet(deployed(kit.Class, "64Mi")), "data=128Mi+", "kubectl drydock status -n "+a.Namespace+" sts/web")
	status := a.Finish(a.drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.Aborted {
		t.Errorf("reason %s, want %s", status.Reason, api.Aborted)
	}
	a.expectRequest("", "64Mi")
	expectSize(t, a.World, "64Mi", "data-web-0")
	expectWhole(t, a.World, "web", 1, "data-web-0")

	a.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverAuto})
	a.applySet(deployed(kit.Class, "128Mi"))
	a.untilPhase(api.Succeeded)
	a.expectRequest("data=128Mi+", "128Mi")
	expectSize(t, a.World, "128Mi", "data-web-0")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestRolledBackRequestIsNotRepeated: the manifest still has the new size after a rollback. Applying it again changes
// nothing. After a withdrawal it is carried out again.
func TestRolledBackRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	bigger := deployed(kit.Class, "128Mi")
	a.applySet(bigger)
	resized := a.Finish(a.drive, "web")
	expectPhase(t, resized, api.Succeeded)
	untilReady(a.World, a.drive, "web", 1)
	if back := rollBack(t, a.World, a.drive, resized); !back.IsRollback() || back.Phase != api.Succeeded {
		t.Fatalf("the resize is not rolled back: %s", describe(back))
	}
	a.expectRequest("data=128Mi+", "64Mi")
	a.expectNoWriteByApply(bigger)
	for range 3 {
		_ = a.drive.Tick(context.Background())
	}
	if status := a.Status("web"); !status.IsRollback() {
		t.Errorf("it was resized again: %s", describe(status))
	}
	a.applySet(deployed(kit.Class, "64Mi"))
	a.expectRequest("", "64Mi")
	untilReady(a.World, a.drive, "web", 1)
	a.applySet(bigger)
	a.Eventually("it is resized again", func() string {
		_ = a.drive.Tick(context.Background())
		if status := a.Status("web"); status.IsRollback() || status.Phase != api.Succeeded {
			return describe(status)
		}
		return ""
	})
	expectSize(t, a.World, "128Mi", "data-web-0")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestNextApplyWarnsOfRefusedRequest: the success of kubectl apply alone says nothing about the volumes.
func TestNextApplyWarnsOfRefusedRequest(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	bigger := deployed(kit.Class, "128Mi")
	bigger.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpand)
	a.applySet(bigger)
	expectPhase(t, a.Finish(a.drive, "web"), api.Refused)
	expectWarning(t, a.applySet(bigger), "data=128Mi+", string(api.ExpandImpossible), "kubectl drydock status -n "+a.Namespace+" sts/web")
	delete(bigger.Annotations, api.ResizeMethodAnnotation)
	a.applySet(bigger)
	a.untilPhase(api.Succeeded)
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestRemovalOfLastAppliedWithdrawsNothing: Flux's kustomize-controller removes kubectl's annotation with a separate patch before it
// applies (Cleanup.Annotations of its ApplyOptions), and so do users who move to server-side apply. The patch states no template.
func TestRemovalOfLastAppliedWithdrawsNothing(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.applySet(deployed(kit.Class, "128Mi"))
	a.expectRequest("data=128Mi+", "64Mi")
	a.Kubectl("patch", "sts/web", "--field-manager=kustomize-controller", "--type=json", "-p",
		`[{"op":"remove","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"}]`)
	a.expectRequest("data=128Mi+", "64Mi")
}

// TestSetLastAppliedWithdrawsNothing: the command writes kubectl's annotation only, here with a larger size.
func TestSetLastAppliedWithdrawsNothing(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.applySet(deployed(kit.Class, "128Mi"))
	a.Kubectl("apply", "set-last-applied", "-f", write(t, deployed(kit.Class, "256Mi")))
	a.expectRequest("data=128Mi+", "64Mi")
}

// TestApplyWithoutTemplatesWithdrawsNothing: another manager applies the name of the Service, which does not change, and no templates.
func TestApplyWithoutTemplatesWithdrawsNothing(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.Class)
	a.applySet(deployed(kit.Class, "128Mi"))
	partial := deployed(kit.Class, "64Mi")
	partial.Spec.VolumeClaimTemplates = nil
	a.Kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", write(t, partial))
	a.expectRequest("data=128Mi+", "64Mi")
}

// TestReplacedRequestIsNamed: an edit shows the stored templates, without the first request, and a user may have written one by hand. The
// Warning of the second change names the request that it replaces.
func TestReplacedRequestIsNamed(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.Kubectl("patch", "sts/web", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/volumeClaimTemplates/0/spec/resources/requests/storage","value":"128Mi"}]`)
	said := a.Kubectl("patch", "sts/web", "--type=merge", "-p", `{"spec":{"serviceName":"other"}}`)
	a.expectRequest("serviceName=other", "64Mi")
	if !mentions(said, "Warning", "serviceName=other", "replaces the request data=128Mi+") {
		t.Errorf("kubectl says %q", said)
	}
	a.Annotate("web", map[string]string{api.ResizeAnnotation: "data=512Mi"})
	labelled := deployed(kit.Class, "64Mi")
	labelled.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"tier": "gold"}
	if said := a.applySet(labelled); !mentions(said, "Warning", "replaces the request data=512Mi") {
		t.Errorf("kubectl says %q", said)
	}
}

// TestApplyWithOtherManagerTakesBackAnySpelling: a client-side apply with another field manager than kubectl's states the stored size, in
// other words.
func TestApplyWithOtherManagerTakesBackAnySpelling(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.Kubectl("apply", "--field-manager=argocd-controller", "-f", write(t, deployed(kit.Class, "128Mi")))
	a.expectRequest("data=128Mi+", "64Mi")
	a.Kubectl("apply", "--field-manager=argocd-controller", "-f", write(t, deployed(kit.Class, "65536Ki")))
	a.expectRequest("", "64Mi")
}

// TestTemplateIsAddedToGrownSet: docs/grow.md: an apply of the old size succeeds, and the rest of the write is stored.
func TestTemplateIsAddedToGrownSet(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.applySet(deployed(kit.Class, "64Mi"))
	grown := deployed(kit.Class, "64Mi")
	grown.Name = "grown"
	grown.Spec.Replicas = new(int32)
	grown.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = *kit.Quantity("128Mi")
	a.Kubectl("apply", "-f", write(t, grown))
	a.Annotate("grown", map[string]string{api.GrowthAnnotation: `{"asked":{"data":{"at":"2026-11-01T00:00:00Z"}}}`})
	old := deployed(kit.Class, "64Mi")
	old.Name, old.Spec.Replicas = "grown", new(int32)
	logs := *old.Spec.VolumeClaimTemplates[0].DeepCopy()
	logs.Name = "logs"
	old.Spec.VolumeClaimTemplates = append(old.Spec.VolumeClaimTemplates, logs)
	if said, err := kubectl(t, a.World, "apply", "-f", write(t, old)); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// TestServerSideApplyOfSameManifestWithdrawsNothing: docs/apply.md says "Applying the same manifest again changes nothing, during and after
// the resize". kubectl apply --server-side of a set that was applied client-side migrates managedFields in a separate patch.
func TestServerSideApplyOfSameManifestWithdrawsNothing(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, clientSide, kit.Class)
	a.Annotate("web", map[string]string{api.CutoverAnnotation: api.CutoverApprove})
	bigger := deployed(kit.Class, "128Mi")
	a.applySet(bigger)
	a.Eventually("the member waits for an approval", func() string {
		_ = a.drive.Tick(t.Context())
		if status := a.Status("web"); status == nil || len(status.Members) != 1 || status.Members[0].Phase != api.MemberWaiting {
			return describe(status)
		}
		return ""
	})
	operation := a.Status("web").Operation
	said, err := kubectl(t, a.World, "apply", "--server-side", "--force-conflicts", "-f", write(t, bigger))
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if abort, found := a.Set("web").Annotations[api.AbortAnnotation]; found {
		t.Errorf("the same manifest has aborted operation %s (%s): %s", operation, abort, said)
	}
	_ = a.drive.Tick(t.Context())
	a.expectRequest("data=128Mi+", "64Mi")
	if status := a.Status("web"); status.Operation != operation || status.Phase != api.Moving {
		t.Errorf("the operation has ended: %s", describe(status))
	}
}

// TestPatchByManagerOfApplyWithdrawsNothing: a tool that uses server-side apply also patches with the same field manager.
func TestPatchByManagerOfApplyWithdrawsNothing(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.Class)
	a.applySet(deployed(kit.Class, "128Mi"))
	a.Kubectl("annotate", "sts/web", "--field-manager=kubectl", "example.com/note=1") // kubectl is the manager of kubectl apply --server-side
	a.expectRequest("data=128Mi+", "64Mi")
}

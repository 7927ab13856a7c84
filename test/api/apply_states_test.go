//go:build cluster

package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

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

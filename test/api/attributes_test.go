//go:build cluster

package api

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

func expectAttributes(t *testing.T, w *kit.World, asks, has string, claims ...string) {
	t.Helper()
	for _, name := range claims {
		if c := w.Claim(name); statefulset.AttributesOf(c) != asks || statefulset.CurrentAttributes(c) != has {
			t.Errorf("claim %s asks for attributes %q and has %q, want %q and %q", name, statefulset.AttributesOf(c),
				statefulset.CurrentAttributes(c), asks, has)
		}
	}
}

func templateAttributes(set *appsv1.StatefulSet) string {
	return ptr.Deref(set.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName, "")
}

// TestAttributesChangeInPlace: the class of the claims does not allow expansion, and no pod stops. The template
// changes, too, so that the claim of a new replica gets the attributes.
func TestAttributesChangeInPlace(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	pods, claims := podUIDs(t, w), w.ClaimUIDs()
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi%" + kit.Attributes})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	expectAttributes(t, w, kit.Attributes, kit.Attributes, "data-web-0", "data-web-1")
	if podUIDs(t, w) != pods || w.ClaimUIDs() != claims {
		t.Error("pods or claims were replaced")
	}
	if is := templateAttributes(w.Set("web")); is != kit.Attributes {
		t.Errorf("the template has attributes %q", is)
	}
	w.Scale("web", 3)
	untilReady(w, drive, "web", 3)
	if is := statefulset.AttributesOf(w.Claim("data-web-2")); is != kit.Attributes {
		t.Errorf("the claim of the new replica asks for %q", is)
	}
	w.PatchClaim("data-web-0", `{"spec":{"volumeAttributesClassName":"`+kit.OtherAttributes+`"}}`) // by a user, later
	ticks(t, drive, 3)
	if status := w.Status("web"); status.Attempt != 1 {
		t.Errorf("attempt %d: %s", status.Attempt, status.Message)
	}
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

// TestSizeAndAttributesChangeTogether: one operation changes both, in place, and later by a copy to another class.
func TestSizeAndAttributesChangeTogether(t *testing.T) {
	w, drive := growingWorld(t, growingSet(2, "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi%" + kit.Attributes})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if len(status.Members) != 0 {
		t.Errorf("members moved: %v", status.Members)
	}
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectAttributes(t, w, kit.Attributes, kit.Attributes, "data-web-0", "data-web-1")

	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi@" + kit.OtherClass + "%" + kit.OtherAttributes})
	w.Eventually("the copies are made", func() string {
		ticks(t, drive, 1)
		if s := w.Status("web"); s.Attempt != 2 || !s.Phase.Terminal() {
			return string(s.Phase) + " " + s.Message
		}
		return ""
	})
	expectPhase(t, w.Status("web"), api.Succeeded)
	for _, name := range []string{"data-web-0", "data-web-1"} {
		if c := w.Claim(name); statefulset.AttributesOf(c) != kit.OtherAttributes || statefulset.ClassOf(c) != kit.OtherClass {
			t.Errorf("claim %s is of class %s with attributes %q", name, statefulset.ClassOf(c), statefulset.AttributesOf(c))
		}
	}
	if is := templateAttributes(w.Set("web")); is != kit.OtherAttributes {
		t.Errorf("the template has attributes %q", is)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestInfeasibleAttributesAreReverted: the claims ask for their previous attributes again. A retry succeeds as soon as
// the storage supports the new ones.
func TestInfeasibleAttributesAreReverted(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi%" + kit.Attributes})
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.AttributesInfeasible || !strings.Contains(status.Message, "no attribute colour") {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	expectAttributes(t, w, "", "", "data-web-0", "data-web-1")
	if is := templateAttributes(w.Set("web")); is != "" {
		t.Errorf("the template has attributes %q", is)
	}
	expectEvents(t, w, "web", "Warning AttributesInfeasible")
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline })
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + " " + status.Message
		}
		return ""
	})
	expectAttributes(t, w, kit.Attributes, kit.Attributes, "data-web-0", "data-web-1")
}

// TestAbortedAttributesAreReverted: claims and template have their previous attributes.
func TestAbortedAttributesAreReverted(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi%" + kit.Attributes})
	untilPhase(t, w, drive, api.Expanding)
	w.Eventually("the claims ask", func() string {
		ticks(t, drive, 1)
		return map[bool]string{false: "not yet"}[statefulset.AttributesOf(w.Claim("data-web-1")) == kit.Attributes]
	})
	w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	if status := w.Finish(drive, "web"); status.Phase != api.Failed || status.Reason != api.Aborted {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	expectAttributes(t, w, "", "", "data-web-0", "data-web-1")
	if is := templateAttributes(w.Set("web")); is != "" {
		t.Errorf("the template has attributes %q", is)
	}
}

// TestUnknownAttributesAreRefused checks that the refusal touches nothing.
func TestUnknownAttributesAreRefused(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi%platinum"})
	if status := w.Finish(drive, "web"); status.Phase != api.Refused || status.Reason != api.UnknownClass {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	expectAttributes(t, w, "", "", "data-web-0")
}

// TestAppliedAttributesBecomeRequest: a manifest may change the VolumeAttributesClass without
// drydock.dev/templates=any, because no pod stops. The same is true for the withdrawal.
func TestAppliedAttributesBecomeRequest(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.GrowingClass)
	gold := deployed(kit.GrowingClass, "128Mi")
	gold.Spec.VolumeClaimTemplates[0].Spec.VolumeAttributesClassName = ptr.To(kit.Attributes)
	pods, request := podUIDs(t, a.World), "data=128Mi+%"+kit.Attributes
	expectWarning(t, a.applySet(gold), request)
	a.expectRequest(request, "64Mi")
	a.applySet(deployed(kit.GrowingClass, "64Mi")) // before the operation has begun
	a.expectRequest("", "64Mi")
	a.applySet(gold)
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	expectSize(t, a.World, "128Mi", "data-web-0")
	expectAttributes(t, a.World, kit.Attributes, kit.Attributes, "data-web-0")
	a.expectRequest(request, "128Mi")
	if is := templateAttributes(a.Set("web")); is != kit.Attributes {
		t.Errorf("the template has attributes %q", is)
	}
	a.expectNoWriteByApply(gold)
	if now := podUIDs(t, a.World); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	a.expectRejected(deployed(kit.GrowingClass, "128Mi")) // Kubernetes does not remove the class of a volume
}

//go:build cluster

package api

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestSetWithAccessToItsNodeNeedsConsent: a resize that a fence would deny later is refused at once. With the
// namespace's consent the set is created again.
func TestSetWithAccessToItsNodeNeedsConsent(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "host",
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/localtime"}}}}
	before := w.CreateSet(set)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	status := w.Finish(drive, "web")
	if status.Phase != api.Refused || status.Reason != api.NodeAccessDenied ||
		!strings.Contains(status.Message, "kubectl label namespace "+w.Namespace) {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	if now := w.Set("web"); now.UID != before.UID || now.Generation != before.Generation {
		t.Error("the set was touched")
	}
	w.LabelNamespace(api.NodeAccessLabel, api.AllowValue)
	w.Retry("web")
	w.Eventually("the resize succeeds", func() string {
		if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
			return string(status.Phase) + ": " + status.Message
		}
		return ""
	})
	if w.Set("web").UID == before.UID {
		t.Error("the set was not created again")
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

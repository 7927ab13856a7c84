//go:build cluster

package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestOldVolumesAreBounded: repeated resizes cannot multiply the storage of a namespace.
func TestOldVolumesAreBounded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		arrange func(*kit.World)
		reason  api.Reason
		says    []string
		mend    func(*kit.World)
	}{
		"by a setting": {arrange: func(w *kit.World) { w.Settings.RetainedVolumes = 1 }, reason: api.TooManyRetained,
			says: []string{"data-web-0", "DRYDOCK_RETAINED_VOLUMES"},
			mend: func(w *kit.World) { w.Settings.RetainedVolumes = 2 }},
		"by a quota of storage": {arrange: func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "250Mi") },
			reason: api.QuotaExceeded,
			says:   []string{"ResourceQuota quota", "250Mi", "old volumes"},
			mend:   func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "1Gi") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			untilReady(w, w.Drive(nil), "web", 1)
			row.arrange(w)
			drive := w.Drive(nil)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=80Mi"})
			expectPhase(t, w.Finish(drive, "web"), api.Succeeded)

			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=112Mi"})
			var status *api.Resize
			w.Eventually("the second resize is refused", func() string {
				_ = drive.Tick(context.Background())
				if status = w.Status("web"); status == nil || status.Phase != api.Refused {
					return describe(status)
				}
				return ""
			})
			if status.Reason != row.reason || !mentions(status.Message, row.says...) {
				t.Fatalf("%s: %s", status.Reason, status.Message)
			}
			row.mend(w)
			drive = w.Drive(nil)
			w.Eventually("there is room again", func() string {
				if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
					return describe(status)
				}
				return ""
			})
			expectWhole(t, w, "web", 1, "data-web-0")
		})
	}
}

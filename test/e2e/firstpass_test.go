//go:build cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestStorageThatRefusesSecondMountIsCopied: the drivers of local storage refuse the mover's mount beside the running pod, each in its own
// way. Every way keeps the data, and the record names it.
// Invariants: I1.
func TestStorageThatRefusesSecondMountIsCopied(t *testing.T) {
	for name, row := range map[string]struct {
		class, level, annotation string
		writable, refused        bool
		stoppedCopy              bool
	}{
		"staged":                     {class: stage.Class},
		"staged, without first pass": {class: stage.Class, annotation: api.FirstPassOff, stoppedCopy: true},
		"direct, with a label":       {class: stage.DirectClass, level: "s0:c1,c2", writable: true},
		"direct, without a label":    {class: stage.DirectClass, refused: true, stoppedCopy: true},
		"one mount, with a label":    {class: stage.OnceClass, level: "s0:c1,c2", refused: true, stoppedCopy: true},
		"one mount, no first pass":   {class: stage.OnceClass, annotation: api.FirstPassOff, stoppedCopy: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.Patience = 10 * time.Minute
			set := stage.Workload("64Mi")
			set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(row.class)
			if row.level != "" {
				set.Spec.Template.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: row.level}
			}
			if row.annotation != "" {
				set.Annotations[api.FirstPassAnnotation] = row.annotation
			}
			s.CreateSet(set)
			before := s.Data(t)
			for _, m := range planOf(t, s, "data=160Mi").Members {
				if off := row.annotation == api.FirstPassOff; (m.NoFirstPass != "") != off {
					t.Errorf("the plan of member %d says about its first pass: %q", m.Ordinal, m.NoFirstPass)
				}
			}
			drydock(t, s)
			s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
			status := s.ExpectResized(t, before)
			for _, m := range status.Members {
				if m.WritableSources != row.writable || (m.RefusingNode != "") != row.refused {
					t.Errorf("member %d: writable sources %t, refusing node %q; want %+v", m.Ordinal, m.WritableSources, m.RefusingNode, row)
				}
			}
			said := s.Kubectl(t, "", "get", "events", "-n", s.Namespace, "--field-selector", "reason="+string(api.NoFirstPass), "-o",
				"jsonpath={..message}")
			if noted := said != ""; noted != (row.stoppedCopy || row.writable) || row.refused &&
				!strings.Contains(said, "The stop lasts as long as the whole copy") {
				t.Errorf("Events of reason %s: %q", api.NoFirstPass, said)
			}
		})
	}
}

//go:build cluster

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// lastWords is a database that writes most of its data at its stop, so that the data fits in the first pass and not in
// the final one.
const lastWords = `cd /data && { [ -e big ] || dd if=/dev/urandom of=big bs=1M count=12 2>/dev/null; } && touch filled
late() { %s; }
trap 'late; sync; exit' TERM; while :; do sleep 1 & wait; done`

// TestDiskFullInFinalPass: the held members start again on their old volumes with all of their data. A larger volume
// has room for it.
// Invariants: I1, I8.
func TestDiskFullInFinalPass(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ late, check, has string }{
		"more bytes than the target has": {
			late:  `[ -e sum ] || { dd if=/dev/urandom of=late bs=1M count=60 2>/dev/null; sha256sum big late > sum; }`,
			check: `cd /data && sha256sum -s -c sum && wc -l < sum`, has: "2",
		},
		// The volume has room for all bytes. Only the write finds the missing inodes.
		"more files than the target has inodes": {
			late:  `[ -e sum ] || { mkdir -p late; i=0; while [ $i -lt 6000 ]; do : > late/$i; i=$((i+1)); done; sha256sum big > sum; }`,
			check: `cd /data && sha256sum -s -c sum && ls late | wc -l`, has: "6000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			set := stage.Workload("160Mi")
			set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
			stage.RunScript(&set.Spec.Template.Spec.Containers[0], "/data", fmt.Sprintf(lastWords, row.late))
			s.CreateSet(set)
			s.AwaitReady(t)
			drydock(t, s)
			s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=80Mi"})
			expectFull(t, s)
			expectSame(t, s, row.check, row.has)
			s.Resize(t, "data=200Mi")
			s.AwaitReady(t)
			expectSame(t, s, row.check, row.has)
			s.ExpectNothingLeft(t)
		})
	}
}

// expectFull waits for a failure in the final pass, and checks that the set has its old volumes.
func expectFull(t *testing.T, s *stage.Stage) {
	t.Helper()
	status := s.AwaitEnd(t)
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || status.FailedAt != api.Moving || !anyHeld(status) {
		t.Fatalf("%s %s at %s, held %v: %s", status.Phase, status.Reason, status.FailedAt, anyHeld(status), status.Message)
	}
	if !strings.Contains(status.Message, "NoSpace") || !strings.Contains(status.Message, "Request a larger size") {
		t.Errorf("it does not say what to do: %s", status.Message)
	}
	t.Log(status.Message)
	s.AwaitReady(t)
	for _, m := range status.Moves() {
		if claim := s.Claim(m.Claim); claim.Spec.VolumeName != m.OldVolume || claim.UID != m.UID {
			t.Errorf("claim %s is on %s, was on %s", m.Claim, claim.Spec.VolumeName, m.OldVolume)
		}
	}
	s.ExpectNothingLeft(t)
}

// expectSame checks the last writes in both pods.
func expectSame(t *testing.T, s *stage.Stage, check, has string) {
	t.Helper()
	for _, pod := range []string{"web-0", "web-1"} {
		if is := s.Exec(t, pod, check); is != has {
			t.Errorf("%s: %q, want %q", pod, is, has)
		}
	}
}

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

package command

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/progress"
	"drydock.dev/test/kit/build"
)

// TestStatusForAUserWhoMayReadOnlyTheSet: most users of a namespace may not list PersistentVolumes. They still see the record,
// and which reasons are missing.
func TestStatusForAUserWhoMayReadOnlyTheSet(t *testing.T) {
	record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, "data-web-0"))
	for _, kind := range []string{"persistentvolumes", "pods", "jobs", "persistentvolumeclaims", "controllerrevisions"} {
		s := newLogServer(t)
		s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Status(record))}
		s.forbidden["/"+kind] = true
		out, errOut, err := s.run(t, "status", "sts/web")
		if err != nil || !strings.Contains(out, "is Moving") || !strings.Contains(out, "FinalPass") || strings.Contains(out, "waits for") {
			t.Errorf("%s: %q, %v", kind, out, err)
		}
		if !strings.Contains(errOut, "missing") || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: stderr %q", kind, errOut)
		}
		out, _, err = s.run(t, "status", "sts/web", "-o", "json")
		var d progress.Document
		if json.Unmarshal([]byte(out), &d) != nil || err != nil || len(d.Members) != 1 || d.Members[0].Waits != "" || d.Unread == "" {
			t.Errorf("%s: %q, %v", kind, out, err)
		}
	}
}

// TestMissingRightHasARemedy: the error of the API server has none.
func TestMissingRightHasARemedy(t *testing.T) {
	s := newLogServer(t)
	s.forbidden["/statefulsets"] = true
	if _, _, err := s.run(t, "list", "-A"); err == nil || !strings.Contains(ErrorText(err), "kubectl drydock doctor") {
		t.Errorf("%v", err)
	}
}

// TestWaitForAUserWhoMayReadOnlyTheSet: the outcome is in the record.
func TestWaitForAUserWhoMayReadOnlyTheSet(t *testing.T) {
	for phase, want := range map[api.Phase]int{api.Succeeded: 0, api.Failed: ExitFailed, api.Moving: ExitTimeout} {
		record := build.Operation(phase)
		s := newLogServer(t)
		s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Status(record), build.Resize(record.Request))}
		s.forbidden["/persistentvolumes"] = true
		_, errOut, err := s.run(t, "status", "sts/web", "--wait", "--timeout", "3s")
		if ExitCode(err) != want || strings.Count(errOut, "missing") != 1 {
			t.Errorf("%s: %v, stderr %q", phase, err, errOut)
		}
	}
	for _, args := range []string{"status web --wait", "wake web --wait"} {
		s := newLogServer(t)
		s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Annotation(api.IdleTimeoutAnnotation, "1h"),
			build.Annotation(api.AwakeUntilAnnotation, "2200-01-01T00:00:00Z"))}
		s.forbidden["/pods"] = true
		if out, _, err := s.run(t, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
}

// TestRollbackForAUserWithoutUnimportantRights: the old volumes are enough to request a rollback. Drydock checks the rest.
func TestRollbackForAUserWithoutUnimportantRights(t *testing.T) {
	claim := build.Claim("data-web-0", "64Mi", build.OfClass("fixed"))
	old := oldVolume(build.ID, "pv-a", build.Annotation(api.RetainedUntilAnnotation, "2200-01-01T00:00:00Z"))
	for kind, needed := range map[string]bool{"/jobs": false, "/controllerrevisions": false, "/pods": false, "/storageclasses": false,
		"/resourcequotas": false, "/limitranges": false, "/persistentvolumeclaims": true, "/persistentvolumes": true} {
		s := newLogServer(t)
		s.Lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"))}
		s.Lists["persistentvolumeclaims"] = []metav1.Object{claim}
		s.Lists["persistentvolumes"] = []metav1.Object{build.VolumeOf(claim), old}
		s.forbidden[kind] = true
		out, errOut, err := s.run(t, "rollback", "sts/web")
		if shown := strings.Contains(out, "pv-a"); shown == needed || !shown && err == nil {
			t.Errorf("%s: %q, %q, %v", kind, out, errOut, err)
		}
		if !needed && (!strings.Contains(errOut, "you lack a right") || !strings.Contains(errOut, "add --yes") || err != nil) {
			t.Errorf("%s: %q, %v", kind, errOut, err)
		}
	}
}

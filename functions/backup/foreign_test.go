package backup

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// TestI1TargetWithDataOfOthersIsKeptFirst: the volume is kept in a write of its own, also where the operation ends for another reason.
func TestI1TargetWithDataOfOthersIsKeptFirst(t *testing.T) {
	for reason, kept := range map[moverreport.Reason]bool{
		moverreport.ReasonTargetNotEmpty: true, moverreport.ReasonUsage: true, moverreport.ReasonNoSpace: false,
	} {
		for _, overdue := range []bool{false, true} {
			in := world(running(copyOperation(api.ClaimPending, justBegun)), users())
			in.Reports["data-web-0"] = moverreport.Line{Report: moverreport.Report{Reason: reason}}
			if overdue {
				in.Set.Annotations[api.AbortAnnotation] = "now"
			}
			p := Decide(in)
			if is := strings.Contains(p.String(), "patch persistentvolumes pv-new-data-web-0"); is != kept || is && build.Stored(p) != nil {
				t.Errorf("%s, aborted %t: %s", reason, overdue, p)
			}
		}
	}
}

// TestI1TargetThatIsTheSourceIsKept: both volumes are the same folder. Who deletes one deletes the other.
func TestI1TargetThatIsTheSourceIsKept(t *testing.T) {
	in := world(running(copyOperation(api.ClaimPending, justBegun)), users())
	for _, name := range []string{"pv-data-web-0", "pv-new-data-web-0"} {
		in.Volumes[name].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/shop/data"}}
	}
	if p := Decide(in); !strings.Contains(p.String(), "patch persistentvolumes pv-new-data-web-0") || build.Stored(p) != nil {
		t.Fatal(p)
	}
	link := linkOf(in, copyOperation(api.ClaimPending, justBegun), api.ClaimStatus{Name: "data-web-0"}, api.RoleForeign)
	fresh := in.Volumes["pv-new-data-web-0"]
	fresh.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	fresh.Labels = map[string]string{api.OperationLabel: link.Operation, api.NamespaceLabel: link.Namespace}
	fresh.Annotations[api.OperationAnnotation], fresh.Annotations[api.ReclaimPolicyAnnotation] = link.Encode(), "Delete"
	if next := build.Stored(Decide(in)); next == nil || next.Phase != api.RollingBack || next.Reason != api.NotProvisioned {
		t.Fatal(Decide(in))
	}
}

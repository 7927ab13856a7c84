package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// lostClaim is a claim that another process deletes in the middle of a resize, and how that ends.
type lostClaim struct {
	at        string // the stop
	temporary bool   // else the set's own
	phase     api.Phase
	reason    api.Reason // if it fails
}

// TestI1ClaimDeletedByHand: its data is not lost, and no pod is started on an empty volume instead of it.
// Invariants: I1, I8.
func TestI1ClaimDeletedByHand(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]lostClaim{
		"the set's, " + finalNow:      {at: finalNow, phase: api.Failed, reason: api.ClaimLost},
		"the set's, " + verifiedNow:   {at: verifiedNow, phase: api.Succeeded},
		"the set's, " + startNow:      {at: startNow, phase: api.Succeeded},
		"a temporary, " + copyNow:     {at: copyNow, temporary: true, phase: api.Failed, reason: api.ClaimLost},
		"a temporary, " + finalNow:    {at: finalNow, temporary: true, phase: api.Failed, reason: api.ClaimLost},
		"a temporary, " + verifiedNow: {at: verifiedNow, temporary: true, phase: api.Succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[row.at])
			drive := r.reach()
			name := "data-web-0"
			if row.temporary {
				name = api.TargetName(r.Status("web").Operation, name, 0)
			}
			r.TryDeleteClaim(name) // of the copies that are verified, one may have been swapped already
			_ = drive.Tick(context.Background())
			r.stop.release(r.World)
			status := r.Finish(drive, "web")
			if status.Phase != row.phase || status.Phase == api.Failed && status.Reason != row.reason {
				t.Errorf("%s; want %s %s", describe(status), row.phase, row.reason)
			}
			r.expectGivenBack(t, drive)
		})
	}
}

// TestI1ClaimDeletedByHandWhileTheSetRuns: it goes when its pod does, as without Drydock. The set is not stopped then, so that its pod
// goes on; and the volume, which would have gone along with the claim, is kept.
// Invariants: I1.
func TestI1ClaimDeletedByHandWhileTheSetRuns(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[copyNow])
	drive := r.reach()
	volume, pods := r.Claim("data-web-0").Spec.VolumeName, setsPods(t, r.World)
	r.DeleteClaim("data-web-0")
	status := r.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.ClaimLost || wasStopped(status) || !strings.Contains(status.Message, "kubectl get pv "+volume) {
		t.Errorf("stopped %v: %s", wasStopped(status), describe(status))
	}
	if now := setsPods(t, r.World); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
	r.Scale("web", 0)
	r.Eventually("the claim is gone", func() string {
		if r.Claim("data-web-0") != nil {
			return "it is there"
		}
		return ""
	})
	expectKept(t, r.World, volume, "data-web-0")
}

// setsPods tells whether pods of the set were started again.
func setsPods(t *testing.T, w *kit.World) string {
	t.Helper()
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	var uids []string
	for _, p := range pods.Items {
		uids = append(uids, p.Name+" "+string(p.UID))
	}
	slices.Sort(uids)
	return strings.Join(uids, ", ")
}

// expectKept checks that a volume is there, with the newest data of the claim's name, and is kept for its window.
func expectKept(t *testing.T, w *kit.World, volume, claim string) {
	t.Helper()
	is, err := w.Kube.CoreV1().PersistentVolumes().Get(context.Background(), volume, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if has, newest := w.Node.Version(volume, claim); has != newest {
		t.Errorf("volume %s has version %d, the newest is %d", volume, has, newest)
	}
	if is.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || is.Annotations[api.RetainedUntilAnnotation] == "" {
		t.Errorf("volume %s: %s, %v", volume, is.Spec.PersistentVolumeReclaimPolicy, is.Annotations)
	}
}

// TestI1ReclaimPolicyDelete: the class's policy, as most have it, would take each volume along with its claim.
// Invariants: I1.
func TestI1ReclaimPolicyDelete(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	old := map[string]string{}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		old[w.Claim(name).Spec.VolumeName] = name
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	looks := 0
	drive := w.Drive(&kit.Saboteur{OnWrite: func(write string) {
		if len(w.HeldPods()) == 0 {
			return
		}
		looks++
		held := 0
		for _, v := range w.Volumes() {
			if old[v.Name] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
				held++
			}
		}
		if held != len(old) {
			t.Errorf("after %s %d of %d old volumes are there and held", write, held, len(old))
		}
	}})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if looks < 10 {
		t.Errorf("it was looked at %d times only", looks)
	}
	for volume, claim := range old {
		if is := w.Claim(claim).Spec.VolumeName; is == volume {
			t.Errorf("claim %s is on its old volume", claim)
		}
	}
	for _, v := range w.Volumes() {
		policy, found := v.Spec.PersistentVolumeReclaimPolicy, v.Annotations[api.ReclaimPolicyAnnotation]
		if old[v.Name] == "" && (policy != "Delete" || found != "") || old[v.Name] != "" && (policy != "Retain" || found != "Delete") {
			t.Errorf("volume %s (old: %q) is %s, its own policy %q", v.Name, old[v.Name], policy, found)
		}
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestI1ClaimRetentionPolicyDelete: with whenDeleted the garbage collector deletes claims whose owner is the set that was there
// before. Both are afterwards as they were, and true.
// Invariants: I1.
func TestI1ClaimRetentionPolicyDelete(t *testing.T) {
	t.Parallel()
	const keep, remove = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for name, policy := range map[string]appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		"when scaled":  {WhenScaled: remove, WhenDeleted: keep},
		"when deleted": {WhenScaled: keep, WhenDeleted: remove},
		"both":         {WhenScaled: remove, WhenDeleted: remove},
	} {
		for how, phase := range map[string]api.Phase{"and it succeeds": api.Succeeded, "and it fails": api.Failed} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				r := newResized(t, stops[finalNow], func(_ *kit.World, set *appsv1.StatefulSet) { set.Spec.PersistentVolumeClaimRetentionPolicy = &policy })
				drive := r.reach()
				r.Node.Set(func(n *kit.Node) { n.FailFinal = phase == api.Failed })
				r.stop.release(r.World)
				expectPhase(t, r.Finish(drive, "web"), phase)
				expectPolicy(t, r, policy)
				r.expectGivenBack(t, drive)
			})
		}
	}
}

// expectPolicy checks that the set has the policy again, and that its claims are owned by whom the policy says. An owner that does not
// exist any more would be the end of a claim.
func expectPolicy(t *testing.T, r *resized, policy appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) {
	t.Helper()
	if is := r.Set("web").Spec.PersistentVolumeClaimRetentionPolicy; *is != policy {
		t.Errorf("the policy is %v, was %v", is, policy)
	}
	r.Eventually("the claims' owners are as the policy says", func() string {
		set, want := r.Set("web"), 0
		if policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			want = 1
		}
		for _, name := range r.claim {
			owners := r.Claim(name).OwnerReferences
			if len(owners) != want || want == 1 && owners[0].UID != set.UID {
				return fmt.Sprintf("set %s; claim %s: %v", set.UID, name, owners)
			}
		}
		return ""
	})
}

// TestI1SetDeletedWithItsClaims: whoever deletes a set with whenDeleted Delete wants its claims to go. What Drydock had held, it keeps
// for the window all the same.
// Invariants: I1.
func TestI1SetDeletedWithItsClaims(t *testing.T) {
	t.Parallel()
	policy := appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Retain", WhenDeleted: "Delete"}
	r := newResized(t, stops[finalNow], func(_ *kit.World, set *appsv1.StatefulSet) { set.Spec.PersistentVolumeClaimRetentionPolicy = &policy })
	drive := r.reach()
	volume := r.Claim("data-web-0").Spec.VolumeName
	r.DeleteSet("web", metav1.DeletePropagationBackground)
	r.stop.release(r.World)
	r.Eventually("the claims are gone, and the operation is undone", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if r.Claim("data-web-0") != nil || r.Claim("data-web-1") != nil {
			return "a claim is there"
		}
		return strings.Join(r.Leftovers(), ", ")
	})
	expectKept(t, r.World, volume, "data-web-0")
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
}

// troubled is what befalls movers, and how that ends.
type troubled struct {
	at      string        // the stop
	times   []kit.Trouble // of the movers that run next, and then no more
	always  kit.Trouble
	timeout time.Duration // of the copy
	phase   api.Phase
	reason  api.Reason
	says    string
}

// TestI8MoverInTrouble: one that is evicted, lost or killed is made again by its Job. What never gets better ends in a failure that
// says what to do, and the set is given back.
// Invariants: I4, I5, I8.
func TestI8MoverInTrouble(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Minute // the Job controller waits longer and longer between tries
	for name, row := range map[string]troubled{
		"evicted, " + copyNow:            {at: copyNow, times: []kit.Trouble{kit.Evicted}, timeout: long, phase: api.Succeeded},
		"evicted, " + finalNow:           {at: finalNow, times: []kit.Trouble{kit.Evicted, kit.Evicted}, timeout: long, phase: api.Succeeded},
		"deleted, " + finalNow:           {at: finalNow, times: []kit.Trouble{kit.Deleted}, timeout: long, phase: api.Succeeded},
		"out of memory, " + finalNow:     {at: finalNow, times: []kit.Trouble{kit.OutOfMemory}, timeout: long, phase: api.Succeeded},
		"always out of memory, warm":     {at: copyNow, always: kit.OutOfMemory, timeout: long, phase: api.Failed, reason: api.CopyFailed, says: api.MoverAnnotation},
		"always out of memory, quiesced": {at: finalNow, always: kit.OutOfMemory, timeout: long, phase: api.Failed, reason: api.CopyFailed, says: api.MoverAnnotation},
		"always evicted": {at: finalNow, always: kit.Evicted, timeout: time.Minute, phase: api.Failed, reason: api.DeadlineExceeded,
			says: "mover"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[row.at])
			r.Settings.CopyTimeout, r.Patience = row.timeout, 5*time.Minute
			drive := r.reach()
			r.Node.Set(func(n *kit.Node) { n.Troubles, n.Trouble = row.times, row.always })
			r.stop.release(r.World)
			status := r.Finish(drive, "web")
			if status.Phase != row.phase || row.phase == api.Failed && status.Reason != row.reason || !strings.Contains(status.Message, row.says) {
				t.Errorf("%s; want %s %s that says %q", describe(status), row.phase, row.reason, row.says)
			}
			if row.at == copyNow && row.phase == api.Failed && wasStopped(status) {
				t.Errorf("the set was stopped at %t", wasStopped(status))
			}
			r.expectGivenBack(t, drive)
			if status.Phase == api.Failed {
				expectEvents(t, r.World, "web", "Warning "+string(row.reason))
			}
		})
	}
}

// TestI6MachineIsGone: with the movers on it, and with the set's pods if they run. No event tells; that the pods are gone is found out
// by Kubernetes, after a minute, and the rest by the tick. What was first copied there is not believed elsewhere.
// Invariants: I5, I6, I8.
func TestI6MachineIsGone(t *testing.T) {
	t.Parallel()
	for _, at := range []string{copyNow, finalNow} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[at], func(w *kit.World, _ *appsv1.StatefulSet) { w.UseMachine() })
			r.Settings.CopyTimeout, r.Patience = 10*time.Minute, 5*time.Minute
			drive := r.reach()
			r.LoseMachine()
			r.stop.release(r.World)
			status := r.Finish(drive, "web")
			expectPhase(t, status, api.Succeeded)
			if m := status.Members[0]; m.Attempt < 2 {
				t.Errorf("the mover beside a pod that is lost was believed: %+v", m)
			}
			r.expectGivenBack(t, drive)
		})
	}
}

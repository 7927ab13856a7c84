//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// lostClaim is a claim that another client deletes during a resize, and the end of that resize.
type lostClaim struct {
	at        string // the stop
	temporary bool   // else the set's claim
	phase     api.Phase
	reason    api.Reason // if it fails
}

// TestDeletedClaimDuringResizeLosesNoData: no pod starts on an empty volume instead.
// Invariants: I1, I8.
func TestDeletedClaimDuringResizeLosesNoData(t *testing.T) {
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
			if row.at == startNow && !row.temporary {
				r.Expect(http.StatusForbidden, api.Restore, "the quota allows no lock of the member's name")
			}
			drive := r.reach()
			name := "data-web-0"
			if row.temporary {
				name = api.TargetName(r.Status("web").Operation, name, 0)
			}
			r.TryDeleteClaim(name) // the other verified copy may have been swapped already
			_ = drive.Tick(context.Background())
			r.stop.release(r.World)
			if row.at == startNow && !row.temporary {
				r.Eventually("the deleted claim is there again", func() string {
					_ = drive.Tick(context.Background())
					if c := r.Claim(name); c == nil || c.DeletionTimestamp != nil || c.Status.Phase != corev1.ClaimBound {
						return "it is not"
					}
					return ""
				})
				retryPods(r.World) // the StatefulSet controller has met the deleted claim, too
			}
			status := r.Finish(drive, "web")
			if status.Phase != row.phase || status.Phase == api.Failed && status.Reason != row.reason {
				t.Errorf("%s; want %s %s", describe(status), row.phase, row.reason)
			}
			r.expectGivenBack(t, drive)
		})
	}
}

// TestDeletedClaimOfRunningPodStopsNothing: the claim disappears with its pod, as without Drydock. The set is not
// stopped, so the pod keeps running. The volume, which would have been deleted with the claim, is retained.
// Invariants: I1.
func TestDeletedClaimOfRunningPodStopsNothing(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[copyNow])
	drive := r.reach()
	volume, pods := r.Claim("data-web-0").Spec.VolumeName, memberPodUIDs(t, r.World)
	r.DeleteClaim("data-web-0")
	status := r.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.ClaimLost || wasStopped(status) || !strings.Contains(status.Message, "kubectl get pv "+volume) {
		t.Errorf("stopped %v: %s", wasStopped(status), describe(status))
	}
	if now := memberPodUIDs(t, r.World); now != pods {
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

// memberPodUIDs returns the set's pods with their UIDs, so that a test notices a restarted pod.
func memberPodUIDs(t *testing.T, w *kit.World) string {
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

// expectKept checks that a volume exists with the newest data of the claim, and is retained.
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

// TestReclaimPolicyDeleteLosesNoVolume: the class has the most common policy, which would delete each volume with its
// claim.
// Invariants: I1.
func TestReclaimPolicyDeleteLosesNoVolume(t *testing.T) {
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
		t.Errorf("there were only %d checks", looks)
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

// TestClaimRetentionPolicyIsRestored: with whenDeleted the garbage collector deletes claims whose owner is the previous
// set. Afterwards policy and owners are as before.
// Invariants: I1.
func TestClaimRetentionPolicyIsRestored(t *testing.T) {
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
				r := newResized(t, stops[finalNow], func(_ *kit.World,
					set *appsv1.StatefulSet) {
					set.Spec.PersistentVolumeClaimRetentionPolicy = &policy
				})
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

// expectPolicy checks that the set has the policy again, and that its claims have the matching owners. A claim with a
// deleted owner would be deleted.
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

// TestSetDeletedWithItsClaimsRetainsVolumes: the policy whenDeleted Delete deletes the claims. Drydock retains the
// volumes of its operation for their retention.
// Invariants: I1.
func TestSetDeletedWithItsClaimsRetainsVolumes(t *testing.T) {
	t.Parallel()
	policy := appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: "Retain", WhenDeleted: "Delete"}
	r := newResized(t, stops[finalNow], func(_ *kit.World,
		set *appsv1.StatefulSet) {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &policy
	})
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

// troubled is a case of failing movers, and the end of the resize.
type troubled struct {
	at      string        // the stop
	times   []kit.Trouble // of the next movers, before the others run without a failure
	always  kit.Trouble
	timeout time.Duration // of the copy
	phase   api.Phase
	reason  api.Reason
	says    string
}

// TestFailingMoverIsReplaced: the Job replaces an evicted, lost or killed mover. A permanent failure ends the resize
// with a remedy in its message, and the set runs as before.
// Invariants: I4, I5, I8.
func TestFailingMoverIsReplaced(t *testing.T) {
	t.Parallel()
	const long = 10 * time.Minute // the Job controller waits longer with each try
	for name, row := range map[string]troubled{
		"evicted, " + copyNow: {at: copyNow, times: []kit.Trouble{kit.Evicted}, timeout: long, phase: api.Succeeded},
		"evicted, " + finalNow: {at: finalNow, times: []kit.Trouble{kit.Evicted, kit.Evicted}, timeout: long,
			phase: api.Succeeded},
		"deleted, " + finalNow:       {at: finalNow, times: []kit.Trouble{kit.Deleted}, timeout: long, phase: api.Succeeded},
		"out of memory, " + finalNow: {at: finalNow, times: []kit.Trouble{kit.OutOfMemory}, timeout: long, phase: api.Succeeded},
		"always out of memory, first pass": {at: copyNow, always: kit.OutOfMemory, timeout: long, phase: api.Failed, reason: api.CopyFailed,
			says: api.MoverAnnotation},
		"always out of memory, quiesced": {at: finalNow, always: kit.OutOfMemory, timeout: long, phase: api.Failed,
			reason: api.CopyFailed, says: api.MoverAnnotation},
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
			if status.Phase != row.phase || row.phase == api.Failed && status.Reason != row.reason ||
				!strings.Contains(status.Message, row.says) {
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

// TestLostMachine: the machine with the movers is lost, with the set's pods if they run. No event reports it.
// Kubernetes notices the lost pods after a minute, and the tick does the rest. A first copy from there is not used
// elsewhere.
// Invariants: I5, I6, I8.
func TestLostMachine(t *testing.T) {
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

// Invariants: I1.
func TestFailedCopyLeavesSetUnchanged(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)

	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || status.Message == "" {
		t.Errorf("%s: %q", status.Reason, status.Message)
	}
	expectSize(t, w, "64Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
	expectEvents(t, w, "web", "Warning CopyFailed")

	w.Node.Set(func(n *kit.Node) { n.FailMovers = false })
	w.Retry("web")
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// Invariants: I2, I7.
func TestRepeatedAndReorderedEventsChangeNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	drive.Shuffle = 7
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// finishedPodOn leaves a pod that has used the claim and has ended, as a CronJob's history does.
func finishedPodOn(t *testing.T, w *kit.World, claim string) {
	t.Helper()
	w.CreatePodOn("backup-28999", claim)
	w.Eventually("the pod has ended", func() string {
		_, _ = w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), "backup-28999", types.MergePatchType,
			[]byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), "backup-28999", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodSucceeded || pod.Spec.NodeName == "" {
			return "not yet"
		}
		return ""
	})
}

// TestFinishedPodOnClaimOfSetAtZero: a swap cannot know when the pod ended. So no member is stopped before the pod is deleted.
func TestFinishedPodOnClaimOfSetAtZero(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	finishedPodOn(t, w, "data-web-0")
	w.Scale("web", 0)
	w.Eventually("the set is at zero", func() string {
		if w.Set("web").Status.Replicas != 0 {
			return "it is not"
		}
		return ""
	})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the record names the pod", func() string {
		ticks(t, drive, 1)
		if s := w.Status("web"); s == nil || s.Reason != api.GateClosed || !strings.Contains(s.Message, "delete that pod") {
			return describe(s)
		}
		return ""
	})
	must(t, w.Kube.CoreV1().Pods(w.Namespace).Delete(t.Context(), "backup-28999", metav1.DeleteOptions{}))
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if stops := status.Members[0].Stops; stops != 1 {
		t.Errorf("the member was stopped %d times", stops)
	}
}

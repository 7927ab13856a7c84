//go:build cluster

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
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// growingSet returns a set whose class allows volume expansion.
func growingSet(replicas int32, templates ...string) *appsv1.StatefulSet {
	set := kit.WorldSet("web", replicas, "64Mi", templates...)
	for i := range set.Spec.VolumeClaimTemplates {
		set.Spec.VolumeClaimTemplates[i].Spec.StorageClassName = ptr.To(kit.GrowingClass)
	}
	return set
}

// growingWorld returns a new world with the set, ready.
func growingWorld(t *testing.T, set *appsv1.StatefulSet) (*kit.World, *kit.Drive) {
	t.Parallel()
	w := kit.NewWorld(t)
	drive := w.Drive(nil)
	w.CreateSet(set)
	untilReady(w, drive, "web", *set.Spec.Replicas)
	return w, drive
}

// podUIDs returns the pods with their UIDs, so that a test notices a replaced pod.
func podUIDs(t *testing.T, w *kit.World) string {
	t.Helper()
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var uids []string
	for _, p := range pods.Items {
		uids = append(uids, fmt.Sprintf("%s=%s", p.Name, p.UID))
	}
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

func capacity(claim *corev1.PersistentVolumeClaim) string {
	return claim.Status.Capacity.Storage().String()
}

// TestExpandOnline: no pod stops, no claim is replaced, and only the claims' requests are written. The template
// follows.
// Invariants: I1.
func TestExpandOnline(t *testing.T) {
	set := growingSet(2, "data", "logs")
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	w, _ := growingWorld(t, set)
	w.PatchClaim(
		"data-web-0",
		`{"metadata":{"annotations":{"backup":"nightly"},"finalizers":["example.com/keep","kubernetes.io/pvc-protection"]}}`,
	)
	t.Cleanup(func() { w.PatchClaim("data-web-0", `{"metadata":{"finalizers":null}}`) })
	before, pods, claims := w.Set("web"), podUIDs(t, w), w.ClaimUIDs()
	metadata := w.Claim("data-web-0").ObjectMeta
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	writes := &kit.Saboteur{}

	status := w.Finish(w.Drive(writes), "web")
	expectPhase(t, status, api.Succeeded)
	if len(status.Expansions) != 2 || len(status.Members) != 0 {
		t.Errorf("claims that grew %v, members that moved %v", status.Expansions, status.Members)
	}
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectSize(t, w, "64Mi", "logs-web-0", "logs-web-1")
	for _, name := range []string{"data-web-0", "data-web-1"} {
		if has := capacity(w.Claim(name)); has != "128Mi" {
			t.Errorf("claim %s has %s", name, has)
		}
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "logs-web-0", "logs-web-1")
	if now := podUIDs(t, w); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	if now := w.ClaimUIDs(); now != claims {
		t.Errorf("claims %s, were %s", now, claims)
	}
	now := w.Claim("data-web-0").ObjectMeta
	if fmt.Sprint(now.Annotations, now.Labels, now.Finalizers) != fmt.Sprint(metadata.Annotations, metadata.Labels, metadata.Finalizers) {
		t.Errorf("metadata %v, was %v", now, metadata)
	}
	after := w.Set("web")
	if after.UID == before.UID || after.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "128Mi" {
		t.Error("the set was not created again with its new template")
	}
	if policy := after.Spec.PersistentVolumeClaimRetentionPolicy; policy.WhenScaled != "Delete" || policy.WhenDeleted != "Delete" {
		t.Errorf("retention policy %v", policy)
	}
	t.Logf("%d API writes: %s", len(writes.Writes()), strings.Join(writes.Writes(), "; "))
}

// TestExpandFollowsTemplate: a user has created the set again with a larger template. Drydock does not create it again.
func TestExpandFollowsTemplate(t *testing.T) {
	w, drive := growingWorld(t, growingSet(3, "data"))
	w.Scale("web", 2) // claim 2 has no pod any more
	untilReady(w, drive, "web", 2)
	w.DeleteSet("web", metav1.DeletePropagationOrphan)
	bigger := growingSet(2, "data")
	bigger.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = *kit.Quantity("128Mi")
	bigger.Annotations[api.ResizeAnnotation] = api.AutoRequest
	before := w.CreateSet(bigger)

	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "data-web-2")
	if w.Set("web").UID != before.UID {
		t.Error("the set was created again")
	}
	ticks(t, drive, 2)
	if status := w.Status("web"); status.Attempt != 1 {
		t.Errorf("attempt %d", status.Attempt)
	}
}

// TestExpansionRestartsPodsForFileSystem: one pod at a time, each once, the highest ordinal first, unless its volume
// has not grown yet.
func TestExpansionRestartsPodsForFileSystem(t *testing.T) {
	w, _ := growingWorld(t, growingSet(3, "data"))
	w.Scale("web", 2)
	untilReady(w, w.Drive(nil), "web", 2)
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsWhenMounted })
	w.Settings.ExpandPatience = 1100 * time.Millisecond // timestamps of pods and conditions have whole seconds
	pods := podUIDs(t, w)
	<-time.After(1100 * time.Millisecond) // timestamps of pods and conditions have whole seconds
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	writes := &kit.Saboteur{}
	expectPhase(t, w.Finish(w.Drive(writes), "web"), api.Succeeded)
	var evicted []string
	for _, write := range writes.Writes() {
		if pod, eviction := strings.CutSuffix(write, "/eviction"); eviction {
			evicted = append(evicted, pod[strings.LastIndex(pod, "/")+1:])
		}
	}
	slices.Sort(evicted)
	if !slices.Equal(evicted, []string{"web-0", "web-1"}) {
		t.Errorf("pods evicted: %v", evicted)
	}
	if podUIDs(t, w) == pods || capacity(w.Claim("data-web-1")) != "128Mi" {
		t.Errorf("claim data-web-1 has %s", capacity(w.Claim("data-web-1")))
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "data-web-2")
	expectEvents(t, w, "web", "Normal MemberRestarted")
}

// TestInfeasibleExpansionIsReverted: the record reports it, the claims stop asking, and the set keeps running.
// Invariants: I8.
func TestInfeasibleExpansionIsReverted(t *testing.T) {
	w, drive := growingWorld(t, growingSet(2, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever })
	pods := podUIDs(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.ExpandInfeasible || status.FailedAt != api.Expanding ||
		!strings.Contains(status.Message, "the pool has 80Mi left") {
		t.Errorf("%s at %s: %s", status.Reason, status.FailedAt, status.Message)
	}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		least := kit.Quantity("64Mi").Value() + 1 // the API server does not accept less
		if asks := w.Claim(name).Spec.Resources.Requests.Storage().Value(); asks != least {
			t.Errorf("claim %s asks for %d, want %d", name, asks, least)
		}
	}
	expectEvents(t, w, "web", "Warning ExpandInfeasible")
	if podUIDs(t, w) != pods || w.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() != "64Mi" {
		t.Error("pods or the template have changed")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")

	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline }) // the pool has become larger
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + " " + status.Message
		}
		return ""
	})
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestExpandThenCopy: claims that can grow in place do so before the set is stopped for the others.
func TestExpandThenCopy(t *testing.T) {
	w, drive := growingWorld(t, growingSet(2, "data", "logs"))
	data := w.Claim("data-web-0")
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,logs=64Mi@" + kit.Class})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if now := w.Claim("data-web-0"); now.UID != data.UID || now.Spec.VolumeName != data.Spec.VolumeName || capacity(now) != "128Mi" {
		t.Errorf("claim data-web-0: %s on %s with %s", now.UID, now.Spec.VolumeName, capacity(now))
	}
	if class := *w.Claim("logs-web-1").Spec.StorageClassName; class != kit.Class {
		t.Errorf("logs-web-1 is of class %s", class)
	}
	if len(status.Expansions) != 2 || len(status.Members) != 2 {
		t.Errorf("claims that grew %v, members that moved %v: %s", status.Expansions, status.Members, status.Message)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "logs-web-0", "logs-web-1")
}

// TestScaleDuringExpansionIsKept: a set that is never stopped keeps the replicas of its user.
// Invariants: I4.
func TestScaleDuringExpansionIsKept(t *testing.T) {
	w, drive := growingWorld(t, growingSet(2, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilPhase(t, w, drive, api.Expanding)
	w.Scale("web", 3)
	untilReady(w, drive, "web", 3)
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("the claim of the new replica follows", func() string {
		ticks(t, drive, 1)
		if has := capacity(w.Claim("data-web-2")); has != "128Mi" {
			return "it has " + has
		}
		return ""
	})
	w.Finish(drive, "web")
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

func untilPhase(t *testing.T, w *kit.World, drive *kit.Drive, phase api.Phase) {
	t.Helper()
	w.Eventually("the operation is "+string(phase), func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status == nil || status.Phase != phase {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
}

// TestExpansionExceedsDeadline: the record reports it, and the claims still ask for the new size.
// Invariants: I8.
func TestExpansionExceedsDeadline(t *testing.T) {
	w, _ := growingWorld(t, growingSet(1, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	w.Settings.ExpandTimeout = 20 * time.Second // on a busy machine, the claim's write may take some of them
	impatient := w.Drive(nil)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(impatient, "web")
	if status.Phase != api.Failed || status.Reason != api.DeadlineExceeded {
		t.Errorf("%s %s", status.Phase, status.Reason)
	}
	expectSize(t, w, "128Mi", "data-web-0")
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline })
	w.Settings = kit.Settings() // on a busy machine the growth may take some seconds
	drive := w.Drive(nil)
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + " " + status.Message
		}
		return ""
	})
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestSmallerRequestWaitsForStorage: the user aborts an expansion to 128Mi and requests 96Mi. The claim does not change while the storage
// grows its volume. Then the volume shrinks by a copy.
// Invariants: I1, I8.
func TestSmallerRequestWaitsForStorage(t *testing.T) {
	w, drive := growingWorld(t, growingSet(1, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilPhase(t, w, drive, api.Expanding)
	w.Eventually("the claim requests 128Mi", func() string {
		ticks(t, drive, 1)
		if requests := w.Claim("data-web-0").Spec.Resources.Requests.Storage().String(); requests != "128Mi" {
			return "it requests " + requests
		}
		return ""
	})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi", api.AbortAnnotation: "now"})
	w.Eventually("the smaller request is refused", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Refused || status.Reason != api.ClaimBusy {
			return fmt.Sprintf("%s %s: %s", status.Phase, status.Reason, status.Message)
		}
		return ""
	})
	expectSize(t, w, "128Mi", "data-web-0")
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsOnline })
	untilPhase(t, w, drive, api.Succeeded)
	expectSize(t, w, "96Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestClaimDeletedDuringExpansion: a user has deleted the claim.
// Invariants: I8.
func TestClaimDeletedDuringExpansion(t *testing.T) {
	w, drive := growingWorld(t, growingSet(1, "data"))
	w.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsLater })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilPhase(t, w, drive, api.Expanding)
	w.DeleteClaim("data-web-0") // it disappears with its pod
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.ClaimLost {
		t.Errorf("%s %s", status.Phase, status.Reason)
	}
}

// TestClaimEnlargedLaterIsKept: a request that has succeeded does not shrink the claim again.
// Invariants: I1.
func TestClaimEnlargedLaterIsKept(t *testing.T) {
	set := growingSet(1, "data")
	w, drive := growingWorld(t, set)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.PatchClaim("data-web-0", `{"spec":{"resources":{"requests":{"storage":"256Mi"}}}}`)
	ticks(t, drive, 3)
	if status := w.Status("web"); status.Attempt != 1 || status.Phase != api.Succeeded {
		t.Errorf("attempt %d %s: %s", status.Attempt, status.Phase, status.Message)
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi"}) // now a request asks for it
	w.Eventually("it shrinks", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status == nil || status.Attempt != 2 || !status.Phase.Terminal() {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	expectPhase(t, w.Status("web"), api.Succeeded)
	expectSize(t, w, "96Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestClaimEnlargedDuringCopyKeepsItsSize: "at least 128Mi" in another class. While the first pass runs, another client
// enlarges the claim to 512Mi in place, and its volume grows.
func TestClaimEnlargedDuringCopyKeepsItsSize(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(kit.GrowingClass)
	w.CreateSet(set)
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi+@" + kit.OtherClass})
	w.Eventually("the member is copied", func() string {
		_ = drive.Tick(t.Context())
		if s := w.Status("web"); s == nil || len(s.Members) == 0 || s.Members[0].Phase != api.MemberCopying || s.Members[0].Pod == "" {
			return describe(s)
		}
		return ""
	})
	w.PatchClaim("data-web-0", `{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}`)
	w.Eventually("the volume has grown", func() string {
		size := w.Claim("data-web-0").Status.Capacity[corev1.ResourceStorage]
		if size.String() != "512Mi" {
			return size.String()
		}
		return ""
	})
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = false })
	if status := w.Finish(drive, "web"); status.Phase != api.Failed || status.Reason != api.ClaimEnlarged {
		t.Errorf("%s", describe(status))
	}
	expectSize(t, w, "512Mi", "data-web-0")
	expectWhole(t, w, "web", 1, "data-web-0")
}

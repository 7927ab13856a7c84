//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// Invariants: I6.
func TestResizeByAnnotationWithTicksAlone(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	before := w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data", "logs"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,logs=96Mi@" + kit.OtherClass})
	writes := &kit.Saboteur{}

	status := w.Finish(w.Drive(writes), "web")
	expectPhase(t, status, api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectSize(t, w, "96Mi", "logs-web-0", "logs-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "logs-web-0", "logs-web-1")
	if class := *w.Claim("logs-web-1").Spec.StorageClassName; class != kit.OtherClass {
		t.Errorf("logs-web-1 is of class %s", class)
	}
	after := w.Set("web")
	if after.UID == before.UID {
		t.Error("the set was not created again")
	}
	if size := after.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "128Mi" {
		t.Errorf("the template asks for %s", size)
	}
	if after.Annotations["team"] != "data" || after.Labels[api.ManagedLabel] != "true" {
		t.Errorf("the new set lost annotations or labels of users: %v %v", after.Annotations, after.Labels)
	}
	expectEvents(t, w, "web", "Normal ResizeDetected", "Normal ResizeCompleted")
	retired := 0
	for _, v := range w.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" {
			retired++
		}
	}
	if retired != 4 {
		t.Errorf("%d old volumes are kept, want 4", retired)
	}
	t.Logf("%d API writes", len(writes.Writes()))
}

func TestResizeAfterOrphanDeleteAndApply(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 3, "64Mi", "data"))
	w.Scale("web", 2) // leaves claim 2 behind, which is resized, too
	w.DeleteSet("web", metav1.DeletePropagationOrphan)
	bigger := kit.WorldSet("web", 2, "128Mi", "data")
	bigger.Annotations[api.ResizeAnnotation] = api.AutoRequest
	before := w.CreateSet(bigger)

	status := w.Finish(w.Drive(nil), "web")
	expectPhase(t, status, api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "data-web-2")
	if w.Set("web").UID != before.UID {
		t.Error("a set whose template is right already was created again")
	}
}

// Invariants: I7.
func TestUpToDateSetCausesNoWrite(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Annotations[api.ResizeAnnotation] = "data=64Mi"
	w.CreateSet(set)
	writes := &kit.Saboteur{}
	drive := w.Drive(writes)
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(writes.Writes()) != 0 || len(drive.EventTypes) != 0 {
		t.Errorf("writes %v, events %v", writes.Writes(), drive.EventTypes)
	}
}

func expectPhase(t *testing.T, status *api.Resize, phase api.Phase) {
	t.Helper()
	if status.Phase != phase {
		t.Fatalf("phase %s, want %s: %s: %s", status.Phase, phase, status.Reason, status.Message)
	}
}

// wasStopped reports whether a member was stopped.
func wasStopped(record *api.Resize) bool {
	return slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.HeldAt != nil })
}

func expectSize(t *testing.T, w *kit.World, size string, claims ...string) {
	t.Helper()
	for _, name := range claims {
		if is := w.Claim(name).Spec.Resources.Requests.Storage().String(); is != size {
			t.Errorf("claim %s asks for %s, want %s", name, is, size)
		}
	}
}

// expectWhole checks the invariants at the end of every operation, with success or without.
func expectWhole(t *testing.T, w *kit.World, set string, replicas int32, claims ...string) {
	t.Helper()
	w.Eventually("every replica is back (I4)", func() string {
		s := w.Set(set)
		if s == nil || *s.Spec.Replicas != replicas || s.Status.ReadyReplicas != replicas {
			return "they are not"
		}
		return ""
	})
	for _, problem := range w.ClaimProblems(claims...) {
		t.Error(problem)
	}
	w.Eventually("nothing is left behind (I9)", func() string {
		if left := w.Leftovers(); len(left) > 0 {
			return left[0]
		}
		return ""
	})
}

func expectEvents(t *testing.T, w *kit.World, set string, want ...string) {
	t.Helper()
	have := w.Events(set)
	for _, reason := range want {
		if !slices.Contains(have, reason) {
			t.Errorf("no Kubernetes Event %q among %q", reason, have)
		}
	}
}

// TestResizeAndRollbackOfOtherSets: sets with fields that other tests leave alone. Two of three claims of each member are copied, and come
// back.
// Invariants: I1, I4.
func TestResizeAndRollbackOfOtherSets(t *testing.T) {
	t.Parallel()
	ordered := func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }
	rolling := func(s *appsv1.StatefulSet) { s.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling) }
	for name, edits := range map[string][]func(*appsv1.StatefulSet){
		"the members start in order, from 3": {ordered, startsAt3},
		"from 3, one after the other":        {ordered, startsAt3, rolling},
		"OnDelete":                           {onDelete},
		"a partition":                        {rolling, withPartition},
		"minReadySeconds":                    {rolling, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3 }},
		"claims are deleted with the set":    {ordered, deletesClaims},
		"an init container and a sidecar":    {withInitContainers},
	} {
		t.Run(name, func(t *testing.T) {
			set := kit.WorldSet("web", 2, "64Mi", "data", "wal", "logs")
			for _, edit := range edits {
				edit(set)
			}
			w, drive := readyWorld(t, set)
			var claims []string
			for _, template := range []string{"data", "wal", "logs"} {
				for i := range 2 {
					claims = append(claims, fmt.Sprintf("%s-web-%d", template, int(startOf(set))+i))
				}
			}
			w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,wal=32Mi@" + kit.OtherClass})
			done := w.Finish(drive, "web")
			expectPhase(t, done, api.Succeeded)
			expectWhole(t, w, "web", 2, claims...)

			before, _ := volumesOf(done)
			expectPhase(t, rollBack(t, w, drive, done), api.Succeeded)
			expectOn(t, w, before)
			expectWhole(t, w, "web", 2, claims...)
		})
	}
}

func startsAt3(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }

func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}

func startOf(s *appsv1.StatefulSet) int32 {
	return ptr.Deref(s.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start
}

func withPartition(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](1)}}
}

// withInitContainers adds an init container that ends before the pod starts, and one that runs as long as the pod.
func withInitContainers(s *appsv1.StatefulSet) {
	s.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "dev.local/busybox:1"},
		{Name: "log", Image: "dev.local/busybox:1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
}

func deletesClaims(s *appsv1.StatefulSet) {
	s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
}

const (
	withFinalizer = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection","example.com/keep"]}}`
	withoutIt     = `{"metadata":{"finalizers":["kubernetes.io/pvc-protection"]}}`
)

// limitMemory limits the memory of each container in the namespace.
func limitMemory(w *kit.World, most string) {
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "memory"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(most)}}}}}
	if _, err := w.Kube.CoreV1().LimitRanges(w.Namespace).Create(context.Background(), limits, metav1.CreateOptions{}); err != nil {
		w.T.Fatal(err)
	}
	untilPodIsRefused(w)
}

// untilPodIsRefused waits until the rules of the namespace are in force: then they deny a pod with 1Gi of memory as any
// user.
func untilPodIsRefused(w *kit.World) {
	w.Eventually("the rules are in force", func() string {
		_, err := w.Kube.CoreV1().Pods(w.Namespace).Create(context.Background(), podOf1Gi(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

func podOf1Gi() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "trial"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "dev.local/busybox:1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}}}}
}

// TestDetectResizeCreatesPodsOnlyInDryRuns: its right to create pods has no other use.
func TestDetectResizeCreatesPodsOnlyInDryRuns(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.InstallPolicies()
	pods := asUser(w, "system:serviceaccount:drydock:detect-resize").Kube.CoreV1().Pods(w.Namespace)
	w.Eventually("the policy is in force", func() string {
		if _, err := pods.Create(t.Context(), podOf1Gi(), metav1.CreateOptions{}); !deniedBy(err, "drydock-dry-run-pods") {
			_ = w.Kube.CoreV1().Pods(w.Namespace).Delete(t.Context(), "trial", metav1.DeleteOptions{})
			return fmt.Sprint(err)
		}
		return ""
	})
	if _, err := pods.Create(t.Context(), podOf1Gi(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := w.Kube.CoreV1().Pods(w.Namespace).Create(t.Context(), podOf1Gi(), metav1.CreateOptions{}); err != nil {
		t.Errorf("by another user: %v", err)
	}
}

// untilHeld ticks until the operation waits for the finalizer.
func untilHeld(t *testing.T, w *kit.World, drive *kit.Drive, what string) {
	t.Helper()
	w.Eventually(what, func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || !strings.Contains(status.Message, "example.com/keep") {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
}

// TestFinalizerDuringFirstPassKeepsSetRunning: a finalizer that appears after the preflight is found before a member
// stops.
func TestFinalizerDuringFirstPassKeepsSetRunning(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the first copy runs", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || len(status.Members) == 0 || status.Members[0].Phase != api.MemberCopying {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	w.PatchClaim("data-web-0", withFinalizer)
	holdFirstPass(w, false)
	untilHeld(t, w, drive, "the operation waits for the finalizer")
	for range 3 {
		_ = drive.Tick(context.Background())
	}
	if status := w.Status("web"); wasStopped(status) {
		t.Errorf("the pod was stopped: %s", describe(status))
	}
	expectEvents(t, w, "web", "Warning "+string(api.ForeignFinalizer))

	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestFinalizerBeforeSwapKeepsClaim: a deletion cannot be reverted, so it does not begin.
func TestFinalizerBeforeSwapKeepsClaim(t *testing.T) {
	w, drive := growingWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	uid := w.Claim("data-web-0").UID
	came := false
	drive.OnEvent = func(e event.Event) {
		if e.Type() == events.BackupCompleted && !came {
			came = true
			w.PatchClaim("data-web-0", withFinalizer)
		}
	}
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("the copies are verified", func() string {
		_ = drive.Tick(context.Background())
		if !came {
			return fmt.Sprintf("status %+v", w.Status("web"))
		}
		return ""
	})
	_ = drive.Tick(context.Background()) // it tries again for eight seconds
	if claim := w.Claim("data-web-0"); claim.DeletionTimestamp != nil || claim.UID != uid || len(claim.Finalizers) != 2 {
		t.Errorf("the claim was touched: deleted %v, finalizers %v", claim.DeletionTimestamp, claim.Finalizers)
	}
	w.PatchClaim("data-web-0", withoutIt)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}

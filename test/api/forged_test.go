//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// tenantOf returns a client with the rights of Kubernetes' ClusterRole edit in the world's namespace.
func tenantOf(t *testing.T, w *kit.World) kubernetes.Interface {
	t.Helper()
	ctx, user := context.Background(), "system:serviceaccount:"+w.Namespace+":tenant"
	_, err := w.Kube.RbacV1().RoleBindings(w.Namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	tenant := kubernetes.NewForConfigOrDie(config)
	w.Eventually("the tenant has rights", func() string {
		if _, err := tenant.CoreV1().PersistentVolumeClaims(w.Namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	if _, err := tenant.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a tenant may list volumes: %v", err)
	}
	return tenant
}

// forge writes the record as an administrator. A policy in config/policy denies this to a tenant, but a cluster without
// the policy must be as safe.
func forge(t *testing.T, w *kit.World, status *api.Resize) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{api.StatusAnnotation: status.Encode()}}})
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), status.Set.Name, types.MergePatchType, body,
		metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// evidence creates a volume that an administrator keeps with the policy Retain. Its claim, which has the name, is
// deleted.
func evidence(t *testing.T, w *kit.World, claim string) *corev1.PersistentVolume {
	t.Helper()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{GenerateName: "evidence-",
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "kit"}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("64Mi")},
			StorageClassName: kit.Class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/evidence"}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: w.Namespace,
				Name: claim, UID: "uid-of-a-deleted-claim"},
		}}
	made, err := w.Kube.CoreV1().PersistentVolumes().Create(context.Background(), volume, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the volume is released", func() string {
		if made = volumeOf(t, w, made.Name); made.Status.Phase != corev1.VolumeReleased {
			return string(made.Status.Phase)
		}
		return ""
	})
	return made
}

func volumeOf(t *testing.T, w *kit.World, name string) *corev1.PersistentVolume {
	t.Helper()
	v, err := w.Kube.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// forged returns a record in the phase with one claim. It has the id that Drydock would derive.
func forged(set string, uid types.UID, phase api.Phase, member api.MemberPhase, move api.Move) *api.Resize {
	past := metav1.NewTime(time.Now().Add(-time.Minute).UTC().Truncate(time.Second))
	move.Template, move.From, move.To = "data", resource.MustParse("64Mi"), resource.MustParse("64Mi")
	record := &api.Resize{
		Header: api.Header{Version: api.RecordVersion, Kind: api.KindResize, Phase: phase, Request: "data=64Mi", Attempt: 1,
			Set: api.SetRef{Name: set, UID: uid}, Started: past},
		Members: []api.Member{{Phase: member, Attempt: 1, Pod: "x", HeldAt: &past, StoppedAt: &past, Claims: []api.Move{move}}},
	}
	record.Operation = api.OperationID(uid, record.Request, record.Attempt)
	return record
}

// TestForgedRecordReachesNoRetainedVolume: Kubernetes does not bind a released volume again unless an administrator
// allows it. A forged record must neither allow it, nor get the volume deleted.
func TestForgedRecordReachesNoRetainedVolume(t *testing.T) {
	t.Parallel()
	const missing = "data-web-7"
	type words struct {
		phase  api.Phase
		member api.MemberPhase
	}
	for name, row := range map[string]struct {
		words []words
		last  func(operation string) string // the last claim of the volume
		move  func(volume string) api.Move
	}{
		"reserved as the old volume of a claim": {
			[]words{{api.Moving, api.MemberSwapping}}, func(string) string { return "evidence" },
			func(v string) api.Move { return api.Move{Claim: missing, OldVolume: v} }},
		"retained by a copy first": {
			[]words{{api.Moving, api.MemberPending}, {api.Moving, api.MemberCopying},
				{api.Reverting, api.MemberCopying}}, func(string) string { return missing },
			func(v string) api.Move { return api.Move{Claim: missing, OldVolume: v} }},
		"reserved as the copy of a claim": {
			[]words{{api.Moving, api.MemberSwapping}, {api.Moving,
				api.MemberStarting}}, func(op string) string { return api.TargetName(op, "data-web-0", 0) },
			func(v string) api.Move {
				return api.Move{Claim: "data-web-0", Verified: true, OldVolume: "-", NewVolume: v}
			}},
		"deleted as an unneeded copy": {
			[]words{{api.Reverting, api.MemberSwapping}, {api.Reverting,
				api.MemberWaiting}}, func(op string) string { return api.TargetName(op, "data-web-0", 0) },
			func(v string) api.Move {
				return api.Move{Claim: "data-web-0", Verified: true, OldVolume: "-", NewVolume: v}
			}},
		"deleted at the end": {
			[]words{{api.Finishing, api.MemberMoved}}, func(op string) string { return "drydock-" + op + "-x" },
			func(v string) api.Move {
				return api.Move{Claim: "data-web-0", Verified: true, OldVolume: "-", NewVolume: v}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			own := w.Claim("data-web-0")
			operation := forged("web", set.UID, api.Moving, api.MemberPending, api.Move{}).Operation
			kept := evidence(t, w, row.last(operation))
			drive := w.Drive(nil)
			for _, said := range row.words {
				move := row.move(kept.Name)
				if move.OldVolume == "-" {
					move.OldVolume, move.UID = own.Spec.VolumeName, own.UID
				}
				forge(t, w, forged("web", set.UID, said.phase, said.member, move))
				ticks(t, drive, 3)
				now := volumeOf(t, w, kept.Name)
				switch {
				case now == nil:
					t.Fatalf("record %v: the volume was deleted", said)
				case now.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain,
					now.Status.Phase != corev1.VolumeReleased,
					now.Labels[api.OperationLabel] != "", now.Annotations[api.OperationAnnotation] != "":
					t.Errorf("record %v: the volume was written to: %+v", said, now)
				}
			}
		})
	}
}

// TestRevisionOfAnotherSetIsNoJournal: the StatefulSet controller copies annotations and labels of a set to its
// revisions.
func TestRevisionOfAnotherSetIsNoJournal(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	tenant := tenantOf(t, w)
	web := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	operation := api.OperationID(web.UID, "data=128Mi", 1)
	link := api.Link{Operation: operation, Role: api.RoleJournal, Namespace: w.Namespace, Set: api.SetRef{Name: "web", UID: web.UID}}
	evil := kit.WorldSet("aaa", 0, "64Mi", "data")
	evil.Namespace, evil.Annotations = w.Namespace, map[string]string{api.OperationAnnotation: link.Encode()}
	evil.Spec.Template.Labels[api.OperationLabel] = operation
	if _, err := tenant.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), evil, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("there is a revision with the annotations of a journal", func() string {
		revisions, err := w.Kube.AppsV1().ControllerRevisions(w.Namespace).List(context.Background(),
			metav1.ListOptions{LabelSelector: api.OperationLabel + "=" + operation})
		if err != nil {
			return err.Error()
		}
		for i := range revisions.Items {
			if api.HasLink(&revisions.Items[i], operation, api.RoleJournal) {
				return ""
			}
		}
		return fmt.Sprintf("%d revisions", len(revisions.Items))
	})
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	for _, problem := range w.ClaimProblems("data-web-0") {
		t.Error(problem)
	}
}

// TestNamespaceDeletedDuringResizeLeavesNoVolume: the set, its claims and the journal disappear with the namespace
// while no function runs. The volume gets its retention, and then its own reclaim policy.
func TestNamespaceDeletedDuringResizeLeavesNoVolume(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	old := w.Claim("data-web-0").Spec.VolumeName
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	dies := &kit.Saboteur{}
	dies.OnWrite = func(write string) {
		if strings.HasSuffix(write, "/persistentvolumes/"+old) {
			dies.At, dies.Failure = len(dies.Writes())+1, kit.DieBefore
		}
	}
	first := w.Drive(dies)
	w.Eventually("the volume is held", func() string {
		_ = first.Tick(context.Background()) // the dead process returns an error
		if v := volumeOf(t, w, old); !api.HasLink(v, v.Labels[api.OperationLabel], api.RoleSource) {
			return "it is not"
		}
		return ""
	})
	deleteNamespace(t, w, func() string { return wantPhase(volumeOf(t, w, old), corev1.VolumeReleased) })
	drive := w.Drive(nil)
	ticks(t, drive, 1)
	if v := volumeOf(t, w, old); v.Annotations[api.RetainedUntilAnnotation] != "" {
		t.Error("it has a retention before the end of its grace time")
	}
	longWithoutClaim(t, w, old)
	ticks(t, drive, 1)
	v := volumeOf(t, w, old)
	if v == nil || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Fatalf("it is not retained: %+v", v)
	}
	if until, err := time.Parse(time.RFC3339, v.Annotations[api.RetainedUntilAnnotation]); err != nil ||
		until.Before(time.Now().Add(w.Settings.Retention-time.Minute)) {
		t.Fatalf("it is kept until %s (%v)", until, err)
	}
	untilVolumeGone(t, w, drive, old)
}

// TestNamespaceDeletedDuringHoldIsGone: the namespace waits for the held pods, and Drydock releases them.
func TestNamespaceDeletedDuringHoldIsGone(t *testing.T) {
	t.Parallel()
	r := newResized(t, stops[stoppingNow])
	var old []string
	for _, claim := range r.claim {
		old = append(old, r.Claim(claim).Spec.VolumeName)
	}
	drive := r.reach()
	r.stop.release(r.World)
	deleteNamespace(t, r.World, func() string {
		_ = drive.Tick(context.Background()) // the API server rejects writes to the namespace
		return ""
	})
	for _, name := range old {
		untilVolumeGone(t, r.World, drive, name)
	}
}

// deleteNamespace deletes the world's namespace, and waits until it is gone and awaited returns nothing.
func deleteNamespace(t *testing.T, w *kit.World, awaited func() string) {
	t.Helper()
	if err := w.Kube.CoreV1().Namespaces().Delete(context.Background(), w.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the namespace is gone", func() string {
		wait := awaited()
		if _, err := w.Kube.CoreV1().Namespaces().Get(context.Background(), w.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("namespace: %v", err)
		}
		return wait
	})
}

// longWithoutClaim makes the volume look as if its claim disappeared an hour ago.
func longWithoutClaim(t *testing.T, w *kit.World, volume string) {
	t.Helper()
	long := fmt.Sprintf(`{"status":{"lastPhaseTransitionTime":%q}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	_, err := w.Kube.CoreV1().PersistentVolumes().Patch(context.Background(), volume, types.MergePatchType, []byte(long),
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// untilVolumeGone ends the grace time and the retention of the volume, and waits until it is gone.
func untilVolumeGone(t *testing.T, w *kit.World, drive *kit.Drive, volume string) {
	t.Helper()
	w.Eventually("volume "+volume+" has its own policy again, and is gone", func() string {
		v := volumeOf(t, w, volume)
		switch {
		case v == nil:
			return ""
		case v.Annotations[api.RetainedUntilAnnotation] != "":
			endWindow(t, w, volume)
		default:
			longWithoutClaim(t, w, volume)
		}
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("it is %s, %s", v.Status.Phase, v.Spec.PersistentVolumeReclaimPolicy)
	})
}

func wantPhase(v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) string {
	if v == nil || v.Status.Phase != phase {
		return fmt.Sprintf("volume: %+v", v)
	}
	return ""
}

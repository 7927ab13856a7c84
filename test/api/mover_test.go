//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// TestMoverWarningsReachRecordAndEvents: the record keeps the warnings of movers. There is one Event for each claim,
// although there are two passes.
func TestMoverWarningsReachRecordAndEvents(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Warning = "2 subvolumes are plain directories in the target" })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	for _, move := range status.Moves() {
		if got := move.Warnings; len(got) != 1 || !strings.Contains(got[0], "subvolumes") {
			t.Errorf("claim %s has the warnings %q", move.Claim, got)
		}
	}
	warned := 0
	for _, event := range w.Events("web") {
		if strings.Contains(event, string(api.CopyWarning)) {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("%d Events in %q", warned, w.Events("web"))
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestMoverThatFindsForeignDataEndsResize: a mover with data in its target ends the operation while the set runs, and
// its Job makes no second try.
func TestMoverThatFindsForeignDataEndsResize(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	w.Node.Set(func(n *kit.Node) {
		n.FailMovers = true
		n.Failure = moverreport.MemberReport{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty,
			Message: "the target's root holds 1 entry"}
	})
	holdFirstPass(w, false)
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || !strings.Contains(status.Message, "TargetNotEmpty") ||
		wasStopped(status) {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
}

// backupAccount is the account of backup in config/.
const backupAccount = "system:serviceaccount:drydock:backup"

// expectStall ticks until the record is MoverStalled and its message mentions the cause. That has to take less than a minute.
func expectStall(t *testing.T, w *kit.World, drive *kit.Drive, cause ...string) {
	t.Helper()
	begun := time.Now()
	w.Eventually(fmt.Sprintf("the record mentions %q", cause), func() string {
		_ = drive.Tick(context.Background())
		status := w.Status("web")
		if status == nil || status.Reason != api.MoverStalled || !mentions(status.Message, cause...) {
			return describe(status)
		}
		return ""
	})
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	expectEvents(t, w, "web", "Warning MoverStalled")
}

// TestImageThatCannotBePulledIsNamedWithinOneMinute: the operation continues as soon as it can be pulled.
func TestImageThatCannotBePulledIsNamedWithinOneMinute(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.NoImage = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectStall(t, w, drive, "ImagePullBackOff", "dev.local/drydock:dev", "pod web-0")
	if status := w.Status("web"); wasStopped(status) {
		t.Errorf("the set was stopped for a mover that cannot run: %s", describe(status))
	}
	w.Node.Set(func(n *kit.Node) { n.NoImage = false })
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if stalled := status.Members[0].Stalled; stalled != "" {
		t.Errorf("still stalled: %s", stalled)
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestImageThatIsNeverPulledFailsBeforeStop: a mover that has its node and does not start would not start later either.
func TestImageThatIsNeverPulledFailsBeforeStop(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Settings.StartTimeout = 30 * time.Second
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.NoImage = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(w.Drive(nil), "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || !strings.Contains(status.Message, "ImagePullBackOff") || wasStopped(status) {
		t.Error(describe(status))
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestPodsThatQuotaRefusesAreNamedWithinOneMinute: the quota appears when one of two movers runs, so no preflight can
// find it. The Job has no pod with a status.
func TestPodsThatQuotaRefusesAreNamedWithinOneMinute(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Grant(backupAccount, "list", "events") // a test of an older version may have removed it from the shared account
	w.Settings.StartTimeout = 40 * time.Second
	set := kit.WorldSet("web", 2, "64Mi", "data")
	set.Annotations[api.ResizeParallelismAnnotation] = "1"
	w.CreateSet(set)
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	w.Eventually("the first mover runs", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || len(movers(t, w)) == 0 {
			return describe(status)
		}
		return ""
	})
	w.CreateQuota(corev1.ResourceLimitsCPU, "10")
	w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = false })
	expectStall(t, w, drive, "must specify limits.cpu")
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	if status.Reason != api.CopyFailed || !strings.Contains(status.Message, "must specify limits.cpu") || wasStopped(status) {
		t.Error(describe(status))
	}
}

// TestSidecarThatOutlivesCopyBlocksNothing: the end of the copy's own container ends the copy.
func TestSidecarThatOutlivesCopyBlocksNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Sidecar = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	expectWhole(t, w, "web", 1, "data-web-0")
}

// archive creates a volume of an administrator, with data.
func archive(t *testing.T, w *kit.World, class string, ref *corev1.ObjectReference) *corev1.PersistentVolume {
	t.Helper()
	volume, err := w.Kube.CoreV1().PersistentVolumes().Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "archive-" + w.Namespace},
		Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: *kit.Quantity("1Gi")},
			StorageClassName: class,
			AccessModes: []corev1.PersistentVolumeAccessMode{
				corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas.example.com",
				Path: "/archive"}}, ClaimRef: ref},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.Kube.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{})
	})
	return volume
}

func createClass(t *testing.T, w *kit.World, name, provisioner string, mode storagev1.VolumeBindingMode) {
	t.Helper()
	classes := w.Kube.StorageV1().StorageClasses()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(mode)}
	if _, err := classes.Create(context.Background(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// TestVolumeOfAdministratorIsNeverTargetOfCopy: the mover would wipe it, and an abort would delete it.
func TestVolumeOfAdministratorIsNeverTargetOfCopy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		mode     storagev1.VolumeBindingMode
		reserved bool // for the temporary claim
	}{
		"bound at once":                    {storagev1.VolumeBindingImmediate, false},
		"bound with the first consumer":    {storagev1.VolumeBindingWaitForFirstConsumer, false},
		"reserved for the temporary claim": {storagev1.VolumeBindingWaitForFirstConsumer, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
			class, request := "class-"+w.Namespace, "data=128Mi@class-"+w.Namespace
			createClass(t, w, class, "kit.example.com", row.mode)
			var ref *corev1.ObjectReference
			if row.reserved {
				ref = &corev1.ObjectReference{Namespace: w.Namespace,
					Name: api.TargetName(api.OperationID(set.UID, request, 1), "data-web-0", 0)}
			}
			volume := archive(t, w, class, ref)
			w.Annotate("web", map[string]string{api.ResizeAnnotation: request})
			status := w.Finish(w.Drive(nil), "web")
			expectPhase(t, status, api.Failed)
			if status.Reason != api.NotProvisioned || !strings.Contains(status.Message, volume.Name) || wasStopped(status) {
				t.Errorf("%s, stopped %v: %s", status.Reason, wasStopped(status), status.Message)
			}
			expectEvents(t, w, "web", "Warning NotProvisioned")
			expectUntouched(t, w, volume)
		})
	}
}

// expectUntouched checks that the volume exists without any annotation of Drydock.
func expectUntouched(t *testing.T, w *kit.World, volume *corev1.PersistentVolume) {
	t.Helper()
	if broken := w.ClaimProblems("data-web-0"); len(broken) > 0 {
		t.Error(broken)
	}
	is, err := w.Kube.CoreV1().PersistentVolumes().Get(context.Background(), volume.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if is.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || is.DeletionTimestamp != nil {
		t.Errorf("volume %s has policy %s, deleted %v", is.Name, is.Spec.PersistentVolumeReclaimPolicy, is.DeletionTimestamp)
	}
	for key := range is.Annotations {
		if strings.HasPrefix(key, api.Prefix) {
			t.Errorf("volume %s has annotation %s", is.Name, key)
		}
	}
}

// TestMoversOfStoppedSetArePlacedLikeItsPods: the API server accepts the scheduling rules that Drydock derives from the
// set. The mover of the second claim follows the first one to its node.
func TestMoversOfStoppedSetArePlacedLikeItsPods(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data", "wal")
	apart := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname", LabelSelector: set.Spec.Selector}
	pod := &set.Spec.Template.Spec
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart}}}
	pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: set.Spec.Selector,
			MatchLabelKeys: []string{"controller-revision-hash"}}}
	pod.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *kit.Quantity("2Gi")}
	w.CreateSet(set)
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	w.Scale("web", 0)
	w.Eventually("the set is at zero", func() string {
		if w.Set("web").Status.Replicas != 0 {
			return "it is not"
		}
		return ""
	})
	w.Node.Set(func(n *kit.Node) { n.Hold = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,wal=128Mi"})
	var list *corev1.PodList
	w.Eventually("two movers run", func() string {
		_ = drive.Tick(context.Background())
		var err error
		if list, err = w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(),
			metav1.ListOptions{LabelSelector: api.OperationLabel}); err != nil {
			return err.Error()
		}
		if len(list.Items) != 2 {
			return describe(w.Status("web"))
		}
		return ""
	})
	choosing := 0
	for _, mover := range list.Items {
		if mover.Labels[api.MemberLabel] != "web-0" {
			continue
		}
		choosing++
		memory := mover.Spec.Containers[0].Resources.Requests.Memory()
		if mover.Spec.Affinity.PodAntiAffinity == nil || len(mover.Spec.TopologySpreadConstraints) != 1 || memory.String() != "2Gi" {
			t.Errorf("%+v", mover.Spec)
		}
	}
	if choosing != 1 {
		t.Errorf("%d movers choose a node for web-0", choosing)
	}
	w.Node.Set(func(n *kit.Node) { n.Hold = false })
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
}

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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// readyWorld returns a new world with the set, ready.
func readyWorld(t *testing.T, set *appsv1.StatefulSet) (*kit.World, *kit.Drive) {
	return growingWorld(t, set)
}

func holdFirstPass(w *kit.World, on bool) { w.Node.Set(func(n *kit.Node) { n.HoldFirstPass = on }) }

// movers returns the pods of movers, including ended ones.
func movers(t testing.TB, w *kit.World) []corev1.Pod {
	t.Helper()
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(),
		metav1.ListOptions{LabelSelector: api.OperationLabel + "," + batchv1.JobNameLabel})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func has(pod corev1.Pod, arg string) bool {
	return slices.Contains(pod.Spec.InitContainers[0].Args, arg)
}

// TestShrinkToSmallerVolume: set, template and claims have the smaller size, and the mover gets the margin.
// Invariants: I1.
func TestShrinkToSmallerVolume(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "128Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi"})
	untilFirstPasses(t, w, drive, 2)
	for _, pod := range movers(t, w) {
		if !has(pod, "--claim=data,margin=7") {
			t.Errorf("mover %s is called with %q", pod.Name, pod.Spec.InitContainers[0].Args)
		}
	}
	holdFirstPass(w, false)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectSize(t, w, "64Mi", "data-web-0", "data-web-1")
	if size := w.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "64Mi" {
		t.Errorf("the template asks for %s", size)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// untilFirstPasses waits until n movers make first passes while the set runs.
func untilFirstPasses(t *testing.T, w *kit.World, drive *kit.Drive, n int) {
	t.Helper()
	w.Eventually("first passes are made while the set runs", func() string {
		ticks(t, drive, 1)
		running := 0
		for _, pod := range movers(t, w) {
			if len(pod.Status.InitContainerStatuses) > 0 && pod.Status.InitContainerStatuses[0].State.Running != nil {
				running++
			}
		}
		if set := w.Set("web"); running != n || set.Status.ReadyReplicas == 0 {
			return fmt.Sprintf("%d movers run, %d replicas are ready", running, set.Status.ReadyReplicas)
		}
		return ""
	})
}

// TestAccessModeAndClassChange checks the claims and the set's template.
func TestAccessModeAndClassChange(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data", "logs"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=64Mi:RWX,logs=64Mi@" + kit.OtherClass + ":RWO+ROX"})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	for name, want := range map[string]string{"data-web-0": "[ReadWriteMany] " + kit.Class,
		"logs-web-1": "[ReadWriteOnce ReadOnlyMany] " + kit.OtherClass} {
		c := w.Claim(name)
		if is := fmt.Sprint(c.Spec.AccessModes, " ", *c.Spec.StorageClassName); is != want {
			t.Errorf("claim %s is %s, want %s", name, is, want)
		}
	}
	if modes := w.Set("web").Spec.VolumeClaimTemplates[0].Spec.AccessModes; !slices.Equal(modes,
		[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}) {
		t.Errorf("the template asks for %v", modes)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "logs-web-0", "logs-web-1")
}

// TestBlockVolumeIsCopiedAsDevice: shrinking a block volume is refused, because its usage is unknown.
func TestBlockVolumeIsCopiedAsDevice(t *testing.T) {
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	w, drive := readyWorld(t, set)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=32Mi"})
	if status := w.Finish(drive, "web"); status.Phase != api.Refused || status.Reason != api.ShrinkRefused {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	mover := movers(t, w)[0].Spec.InitContainers[0]
	if len(mover.VolumeDevices) != 2 || len(mover.VolumeMounts) != 2 || !slices.Contains(mover.Args, "--claim=data,device") {
		t.Errorf("%+v", mover)
	}
	holdFirstPass(w, false)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if mode := w.Claim("data-web-0").Spec.VolumeMode; mode == nil || *mode != corev1.PersistentVolumeBlock {
		t.Error("the claim is not a block volume any more")
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestFirstPassesRunBesidePods: movers run on the pods' nodes, with read-only sources, up to the limit.
func TestFirstPassesRunBesidePods(t *testing.T) {
	set := kit.WorldSet("web", 3, "64Mi", "data")
	set.Annotations[api.ResizeParallelismAnnotation] = "2"
	w, drive := readyWorld(t, set)
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 2)
	for _, pod := range movers(t, w) {
		terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || len(terms[0].MatchFields) != 1 || terms[0].MatchFields[0].Values[0] != "kit" ||
			!pod.Spec.Volumes[1].PersistentVolumeClaim.ReadOnly {
			t.Errorf("mover %s: %+v", pod.Name, pod.Spec.Affinity)
		}
	}
	holdFirstPass(w, false)
	record := w.Finish(drive, "web")
	expectPhase(t, record, api.Succeeded)
	for _, m := range record.Members {
		if m.Attempt != 1 || m.Pod == "" {
			t.Errorf("member %d has had %d movers, pod %q", m.Ordinal, m.Attempt, m.Pod)
		}
	}
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1", "data-web-2")
}

// TestFirstPassesThatNeverConvergeStopNoMember: the message has the forecast and its limit.
func TestFirstPassesThatNeverConvergeStopNoMember(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.NeverConverge = true })
	pods := podUIDs(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi", api.StrategyAnnotation: string(api.StrategyRolling)})
	record := w.Finish(drive, "web")
	if record.Phase != api.Failed || record.Reason != api.NotConverged || !strings.Contains(record.Message, "90 s") ||
		!strings.Contains(record.Message, "60 s") {
		t.Error(describe(record))
	}
	if now := podUIDs(t, w); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestFailedFirstPassStopsNoMember: the resize fails without downtime.
// Invariants: I8.
func TestFailedFirstPassStopsNoMember(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	pods := podUIDs(t, w)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || wasStopped(status) ||
		!strings.Contains(status.Message, "no space left") {
		t.Errorf("%s %s, stopped %v: %s", status.Phase, status.Reason, wasStopped(status), status.Message)
	}
	if now := podUIDs(t, w); now != pods {
		t.Errorf("pods %s, were %s", now, pods)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestAbortDuringFirstPassKeepsScale: a set that was scaled during the operation keeps its replicas.
// Invariants: I4.
func TestAbortDuringFirstPassKeepsScale(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 2)
	w.Scale("web", 3)
	untilReady(w, drive, "web", 3)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.Aborted || wasStopped(status) {
		t.Errorf("%s %s, stopped %v", status.Phase, status.Reason, wasStopped(status))
	}
	holdFirstPass(w, false)
	expectWhole(t, w, "web", 3, "data-web-0", "data-web-1")
}

// TestFirstPassWithoutRoomRunsAfterStop: the mover has no room beside the pod, so the claim is copied when the set is
// stopped.
// Invariants: I8.
func TestFirstPassWithoutRoomRunsAfterStop(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.Settings.StartTimeout = 8 * time.Second // the last mover has the same limit, on a machine that may be busy
	drive := w.Drive(nil)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	w.CreateSet(set)
	untilReady(w, drive, "web", 1)
	w.Node.Set(func(n *kit.Node) { n.Full = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if m := status.Members[0]; m.Attempt < 2 {
		t.Errorf("%+v", m)
	}
	expectWhole(t, w, "web", 1, "data-web-0")
}

// TestMoverOptions: the set's options override the namespace's options.
func TestMoverOptions(t *testing.T) {
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Annotations[api.MoverAnnotation] = "{resources: {limits: {memory: 2Gi}}, tolerations: [{key: movers, operator: Exists}]}"
	w, drive := readyWorld(t, set)
	_, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.MoverConfigMap},
			Data: map[string]string{
				api.MoverKey: "nodeSelector: {}\ntolerations: []\nresources: {limits: {memory: 4Gi}}\nimagePullSecrets: [{name: registry}]\n",
			}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	pod := movers(t, w)[0].Spec
	tolerates := slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.Key == "movers" })
	if pod.Containers[0].Resources.Limits.Memory().String() != "2Gi" || !tolerates || pod.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("%+v", pod)
	}
	holdFirstPass(w, false)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Annotate("web", map[string]string{api.MoverAnnotation: "{resource: {}}", api.ResizeAnnotation: "data=160Mi"})
	w.Eventually("it is refused", func() string {
		ticks(t, drive, 1)
		if status := w.Status("web"); status.Phase != api.Refused || status.Reason != api.MoverInvalid ||
			!strings.Contains(status.Message, "resource") {
			return fmt.Sprintf("%s %s: %s", status.Phase, status.Reason, status.Message)
		}
		return ""
	})
	expectWhole(t, w, "web", 1, "data-web-0")
}

//go:build cluster

package api

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit"
)

// TestMoversOfClusterHaveLimit: six resizes of two namespaces are requested at once, and two movers may run. Each resize gets its turn, and
// the list of turns is empty in the end.
func TestMoversOfClusterHaveLimit(t *testing.T) {
	const limit, sets = 2, 3
	worlds := []*kit.World{kit.NewWorld(t), kit.NewWorld(t)}
	for _, w := range worlds {
		w.Settings.Movers = limit
		for i := range sets {
			w.CreateSet(kit.WorldSet(setName(i), 1, "64Mi", "data"))
			w.Annotate(setName(i), map[string]string{api.ResizeAnnotation: "data=128Mi"})
		}
	}
	drive := worlds[0].DriveIn(worlds[0].Namespace, worlds[1].Namespace)
	most := 0
	count := func() {
		movers := 0
		for _, w := range worlds {
			jobs, err := w.Kube.BatchV1().Jobs(w.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: api.OperationLabel})
			if err != nil {
				t.Fatal(err)
			}
			for i := range jobs.Items {
				if !ended(&jobs.Items[i]) {
					movers++
				}
			}
		}
		most = max(most, movers)
		if movers > limit {
			t.Errorf("%d movers at once, the limit is %d", movers, limit)
		}
	}
	worlds[0].Eventually("every resize has succeeded", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		count()
		for _, w := range worlds {
			for i := range sets {
				status := w.Status(setName(i))
				if status == nil || !status.Phase.Terminal() {
					return fmt.Sprintf("%s of %s: %s", setName(i), w.Namespace, describe(status))
				}
				expectPhase(t, status, api.Succeeded)
			}
		}
		return ""
	})
	if most < limit {
		t.Errorf("at most %d movers at once: the limit was not used", most)
	}
	worlds[0].Eventually("the list of turns is empty", func() string {
		_ = drive.Tick(context.Background())
		list, err := worlds[0].Kube.CoreV1().ConfigMaps(api.HomeNamespace).Get(context.Background(), api.TurnsConfigMap, metav1.GetOptions{})
		if err != nil || len(list.Data) > 0 {
			return fmt.Sprintf("%v, %v", list.Data, err)
		}
		return ""
	})
}

// TestLargeSetLeavesTurnsToOtherNamespaces: a set with more members than the limit has a mover for each. Another namespace has its turn
// meanwhile, and another set of the same namespace waits.
func TestLargeSetLeavesTurnsToOtherNamespaces(t *testing.T) {
	const limit = 2
	large, other := kit.NewWorld(t), kit.NewWorld(t)
	large.Settings.Movers = limit
	large.CreateSet(kit.WorldSet("web", limit+1, "64Mi", "data"))
	large.CreateSet(kit.WorldSet("second", 1, "64Mi", "data"))
	other.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive := large.DriveIn(large.Namespace, other.Namespace)
	holdFirstPass(large, true)
	large.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, large, drive, limit+1)
	large.Annotate("second", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	ticks(t, drive, 1)
	other.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, other.Finish(drive, "web"), api.Succeeded)
	if status := large.Status("web"); status.Phase != api.Moving || wasStopped(status) {
		t.Errorf("the large set does not copy any more: %s", describe(status))
	}
	if status := large.Status("second"); status == nil || status.Phase != api.Planned || status.Reason != api.TurnWaits {
		t.Errorf("the second set of the namespace: %s", describe(status))
	}
	holdFirstPass(large, false)
	expectPhase(t, large.Finish(drive, "web"), api.Succeeded)
	expectPhase(t, large.Finish(drive, "second"), api.Succeeded)
}

// TestAwaitedApprovalTakesNoTurn: the namespace may have one mover. While one resize waits for an approval, another one has the turn. The
// first one needs it again after the approval.
func TestAwaitedApprovalTakesNoTurn(t *testing.T) {
	w := kit.NewWorld(t)
	w.Settings.Movers = 2
	w.CreateSet(kit.WorldSet("patient", 1, "64Mi", "data"))
	w.CreateSet(kit.WorldSet("quick", 1, "64Mi", "data"))
	drive := w.Drive(nil)
	w.Annotate("patient", map[string]string{api.ResizeAnnotation: "data=128Mi", api.CutoverAnnotation: api.CutoverApprove})
	w.Eventually("one resize waits for its approval", func() string {
		_ = drive.Tick(t.Context())
		if status := w.Status("patient"); status == nil || status.Reason != api.GateClosed || !status.TurnReturned {
			return describe(status)
		}
		return ""
	})
	w.Annotate("quick", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	expectPhase(t, w.Finish(drive, "quick"), api.Succeeded)
	if status := w.Status("patient"); status.Phase != api.Moving || status.Members[0].Phase != api.MemberWaiting {
		t.Errorf("it continues without its approval: %s", describe(status))
	}
	w.Annotate("patient", map[string]string{api.ApproveAnnotation: w.Status("patient").Operation})
	status := w.Finish(drive, "patient")
	expectPhase(t, status, api.Succeeded)
	if status.TurnReturned {
		t.Error("it has ended without a turn")
	}
}

// TestKeysOfAConfigMapAreWrittenIndependently: many operations begin to wait for their turns at once. Each writes its key to any version of
// the list, but replaces only the value that it has read. A patch that does not fit is a conflict.
func TestKeysOfAConfigMapAreWrittenIndependently(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	maps := w.Kube.CoreV1().ConfigMaps(w.Namespace)
	empty, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "list"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(data map[string]string) *corev1.ConfigMap {
		list := empty.DeepCopy()
		list.Data = data
		return list
	}
	one, other, annotated := with(map[string]string{"a": "1"}), with(map[string]string{"a": "1"}), empty.DeepCopy()
	other.UID = "other"
	annotated.Annotations = map[string]string{"note": "gone"}
	for _, row := range []struct {
		situation string
		write     []plan.Action
		want      map[string]string
	}{
		{"the first key", plan.SetData(empty, map[string]string{"a": "1"}), map[string]string{"a": "1"}},
		{"the first key, again", plan.SetData(empty, map[string]string{"b": "2"}), map[string]string{"a": "1"}},
		{"another key", plan.SetData(one, map[string]string{"a": "1", "b": "2"}), map[string]string{"a": "1", "b": "2"}},
		{"a third key, as the second one is not known", plan.SetData(one, map[string]string{"a": "1", "c": "3"}),
			map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"another process has added the key", plan.SetData(one, map[string]string{"a": "1", "b": "9"}),
			map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"another ConfigMap has the name", plan.SetData(other, map[string]string{"a": "1", "d": "4"}),
			map[string]string{"a": "1", "b": "2", "c": "3"}},
		{"a key is removed", plan.SetData(one, nil), map[string]string{"b": "2", "c": "3"}},
		{"another process has removed the key", plan.SetData(one, nil), map[string]string{"b": "2", "c": "3"}},
		{"another process has removed the annotation", plan.PatchOf(plan.ConfigMaps, annotated).Unannotate("note").Actions(),
			map[string]string{"b": "2", "c": "3"}},
	} {
		tries := 0
		_, err := apply.New(kube.NewClient(w.Config), api.PauseOwner, slog.New(slog.DiscardHandler)).Run(t.Context(),
			func(context.Context) (plan.Plan, error) {
				if tries++; tries > 1 {
					return plan.Noop(api.TurnWaits), nil
				}
				return plan.Do(api.TurnWaits, row.write...), nil
			})
		after, readErr := maps.Get(t.Context(), "list", metav1.GetOptions{})
		if err != nil || readErr != nil || tries != 2 || !cmp.Equal(after.Data, row.want) {
			t.Errorf("%s: %v, %v after %d tries, %v", row.situation, after.Data, err, tries, readErr)
		}
	}
}

func ended(job *batchv1.Job) bool {
	return job.DeletionTimestamp != nil || job.Status.CompletionTime != nil
}

// TestOnlyPauseOwnerWritesTurns: the list decides who may copy, so only pause-owner writes it.
func TestOnlyPauseOwnerWritesTurns(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	for _, function := range []api.Function{api.PauseOwner, api.Sift, api.Backup, api.Restore, api.DetectResize} {
		client := kubernetes.NewForConfigOrDie(kube.Impersonate(w.Config, function))
		_, err := client.CoreV1().ConfigMaps(api.HomeNamespace).Patch(t.Context(), api.TurnsConfigMap, "application/merge-patch+json",
			[]byte(`{"data":{"probe":null}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if may := !apierrors.IsForbidden(err); may != (function == api.PauseOwner) {
			t.Errorf("%s may write the list: %t (%v)", function, may, err)
		}
		_, err = client.CoreV1().ConfigMaps(api.HomeNamespace).Get(t.Context(), "drydock-settings", metav1.GetOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s may read the settings: %v", function, err)
		}
	}
}

func setName(i int) string { return fmt.Sprintf("web-%c", 'a'+i) }

//go:build cluster

package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// TestRefusedRequestBeginsWhenItsCauseIsGone without another request.
func TestRefusedRequestBeginsWhenItsCauseIsGone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		set     func(*appsv1.StatefulSet)
		arrange func(*kit.World)
		request string
		reason  api.Reason
		mend    func(*kit.World)
	}{
		"a quota is raised": {
			arrange: func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "150Mi") }, reason: api.QuotaExceeded,
			mend: func(w *kit.World) { w.CreateQuota(corev1.ResourceRequestsStorage, "1Gi") }},
		"another method is asked for": {
			set:    func(s *appsv1.StatefulSet) { s.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpand) },
			reason: api.ExpandImpossible,
			mend: func(w *kit.World) {
				w.Annotate("web", map[string]string{api.ResizeMethodAnnotation: string(api.MethodCopy)})
			}},
		"the options of the mover are fixed": {
			set:    func(s *appsv1.StatefulSet) { s.Annotations[api.MoverAnnotation] = "speed: high" },
			reason: api.MoverInvalid,
			mend:   func(w *kit.World) { w.Annotate("web", map[string]string{api.MoverAnnotation: "priorityClassName: ''"}) }},
		"the owner policy ignores the owner": {
			arrange: func(w *kit.World) { w.AddController("web") }, reason: api.OwnerNotPausable,
			mend: func(w *kit.World) {
				w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
			}},
		"the namespace allows root movers": {
			set:    func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext = nil },
			reason: api.RootMoverNeeded,
			mend:   func(w *kit.World) { w.LabelNamespace(api.RootMoverLabel, api.AllowValue) }},
		"the class is there": {
			request: "of that class", reason: api.UnknownClass,
			mend: func(w *kit.World) { createClassLike(w, kit.Class, w.Namespace+"-later") }},
		"the foreign pod is gone": {
			arrange: func(w *kit.World) { w.CreatePodOn("debug", "data-web-0") }, reason: api.ForeignConsumer,
			mend: func(w *kit.World) {
				must(w.T.(*testing.T), w.Kube.CoreV1().Pods(w.Namespace).Delete(w.T.Context(), "debug",
					metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			}},
		"the limit range that a mover exceeds is gone": {
			arrange: func(w *kit.World) { limitMemory(w, "512Mi") }, reason: api.Rejected,
			mend: func(w *kit.World) {
				must(w.T.(*testing.T), w.Kube.CoreV1().LimitRanges(w.Namespace).Delete(w.T.Context(), "memory", metav1.DeleteOptions{}))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			set := kit.WorldSet("web", 1, "64Mi", "data")
			if row.set != nil {
				row.set(set)
			}
			w.CreateSet(set)
			drive := w.Drive(nil)
			untilReady(w, drive, "web", 1)
			if row.arrange != nil {
				row.arrange(w)
			}
			request := "data=128Mi"
			if row.request != "" {
				request = "data=128Mi@" + w.Namespace + "-later"
			}
			w.Annotate("web", map[string]string{api.ResizeAnnotation: request})
			if status := w.Finish(drive, "web"); status.Phase != api.Refused || status.Reason != row.reason {
				t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
			}
			row.mend(w)
			w.Eventually("the request begins and succeeds", func() string {
				if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
					return string(status.Phase) + ": " + status.Message
				}
				return ""
			})
			expectWhole(t, w, "web", 1, "data-web-0")
		})
	}
}

// TestRefusedSleepBeginsWhenItsCauseIsGone: no retry is needed, and until then the refusal is not written again.
func TestRefusedSleepBeginsWhenItsCauseIsGone(t *testing.T) {
	t.Parallel()
	own := func(w *kit.World, group, kind string) {
		row := rowOf(w.T.(*testing.T), group, kind)
		w.GrantPause(row.Operator)
		w.DefineKind(row, kind)
		w.SetController("web", w.CreateCustom(row, kind, "main", map[string]any{"size": int64(1)}, nil))
	}
	unwilling := func(w *kit.World) {
		own(w, "redis.redis.opstreelabs.in", redis)
		w.LabelNamespace(api.PauseOwnersLabel, "")
	}
	rights := ""
	for name, row := range map[string]struct {
		arrange func(*kit.World)
		reason  api.Reason
		says    string
		mend    func(*kit.World)
		operate func(*kit.World)
	}{
		"the owner policy ignores the owner": {
			arrange: func(w *kit.World) { w.AddController("web") }, reason: api.OwnerNotPausable, says: "ConfigMap operator",
			mend: func(w *kit.World) {
				w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
			}},
		"the label of the namespace allows a pause": {
			arrange: unwilling, reason: api.OwnerNotPausable, says: api.PauseOwnersLabel,
			mend: func(w *kit.World) { w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToPause)) }},
		"the right to write the owner is granted": {
			arrange: func(w *kit.World) {
				var row owners.Row
				row, rights = privateOwner(w)
				w.Expect(http.StatusForbidden, api.PauseOwner, "the right to patch the owner is missing")
				w.Kubectl("apply", "-f", rights)
				w.Kubectl("patch", "clusterrole", "drydock-owners-"+w.Namespace, "--type=json",
					`-p=[{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`)
				w.SetController("web", w.CreateCustom(row, "Store", "main", map[string]any{}, nil))
			}, reason: api.OwnerNotPausable, says: "cannot patch resource",
			mend: func(w *kit.World) { w.Kubectl("apply", "-f", rights) }},
		"the operator's stop keeps the claims": {
			arrange: func(w *kit.World) {
				w.PatchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
				own(w, "cassandra.datastax.com", "CassandraDatacenter")
			}, reason: api.DeletesClaims, says: "whenScaled",
			mend: func(w *kit.World) {
				w.PatchSet("web", `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"}}}`)
			},
			operate: func(w *kit.World) {
				operatorOf(w, rowOf(w.T.(*testing.T), "cassandra.datastax.com", "CassandraDatacenter"), "CassandraDatacenter", 1)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			idleSet(w, "web", 1, nil)
			row.arrange(w)
			drive := w.Drive(nil)
			w.Eventually("the sleep is refused for its cause", func() string {
				must(t, drive.Tick(t.Context()))
				if sleep := w.Sleep("web"); sleep == nil || sleep.Phase != api.Refused || sleep.Reason != row.reason ||
					!strings.Contains(sleep.Message, row.says) {
					return cmp.Diff(nil, sleep)
				}
				return ""
			})
			must(t, drive.Tick(t.Context())) // all members run, so the record forgets their count
			before := w.Set("web").Annotations[api.SleepAnnotation]
			must(t, drive.Tick(t.Context()))
			if after := w.Set("web").Annotations[api.SleepAnnotation]; after != before {
				t.Errorf("the refusal is written again: %s", after)
			}
			row.mend(w)
			awaitAsleep(t, w, drive, func() {
				if row.operate != nil {
					row.operate(w)
				}
			})
		})
	}
}

// TestRetryOnWrongObjectIsAnswered once, and does not stay for a later failure. The Event names the command for the other object.
func TestRetryOnWrongObjectIsAnswered(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive := w.Drive(nil)
	untilReady(w, drive, "web", 1)
	answered := func(message string, retried func() map[string]string) {
		t.Helper()
		w.Eventually("the retry is removed", func() string {
			must(t, drive.Tick(t.Context()))
			return retried()[api.RetryAnnotation]
		})
		must(t, drive.Tick(t.Context()))
		list, err := w.Kube.CoreV1().Events(w.Namespace).List(t.Context(),
			metav1.ListOptions{FieldSelector: "reason=" + string(api.NothingFailed)})
		must(t, err)
		count := 0
		for _, e := range list.Items {
			if strings.Contains(e.Message, message) {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%d Events say %q: %v", count, message, list.Items)
		}
	}
	w.Retry("web")
	answered("StatefulSet web has no resize request", func() map[string]string { return w.Set("web").Annotations })
	must(t, w.CreateScaler("pilot", v1alpha1.ScalerSpec{Target: "web"}))
	w.Eventually("the Scaler is ready", func() string {
		must(t, drive.Tick(t.Context()))
		if s := w.Scaler("pilot"); s == nil || s.Status.Stage != v1alpha1.StageIdle {
			return "not yet"
		}
		return ""
	})
	_, err := w.Scalers().Patch(t.Context(), "pilot", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"drydock.dev/retry":"now"}}}`), metav1.PatchOptions{})
	must(t, err)
	answered("kubectl drydock retry -n "+w.Namespace+" sts/web", func() map[string]string { return w.Scaler("pilot").Annotations })
}

// createClassLike creates another class of the same provisioner. It ends with the test.
func createClassLike(w *kit.World, model, name string) {
	class, err := w.Kube.StorageV1().StorageClasses().Get(w.T.Context(), model, metav1.GetOptions{})
	must(w.T.(*testing.T), err)
	_, err = w.Kube.StorageV1().StorageClasses().Create(w.T.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
		Provisioner: class.Provisioner, VolumeBindingMode: class.VolumeBindingMode}, metav1.CreateOptions{})
	must(w.T.(*testing.T), err)
	w.T.Cleanup(func() {
		_ = w.Kube.StorageV1().StorageClasses().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
}

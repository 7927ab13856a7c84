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
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// failed returns a world after a failed copy. Movers do not fail any more.
func failed(t *testing.T) (*kit.World, *kit.Drive) {
	t.Helper()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	w.Node.Set(func(n *kit.Node) { n.FailMovers = false })
	return w, drive
}

// send delivers an event and every event that follows, without a tick.
func send(t *testing.T, drive *kit.Drive, eventType string, ref events.Ref) {
	t.Helper()
	if err := drive.Send(context.Background(), events.NewFromUser(eventType, ref, "by-hand")); err != nil {
		t.Fatal(err)
	}
	if err := drive.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Invariants: I8.
func TestRetryEventRepeatsFailedOperation(t *testing.T) {
	t.Parallel()
	w, drive := failed(t)
	ref := refOf(w)
	ref.Operation = w.Status("web").Operation
	send(t, drive, events.Retry, ref)
	status := w.Status("web")
	if status.Phase.Terminal() || status.Attempt != 2 {
		t.Fatalf("phase %s, attempt %d: the retry was not taken", status.Phase, status.Attempt)
	}
	send(t, drive, events.Retry, ref) // the same event again
	if again := w.Status("web"); again.Operation != status.Operation {
		t.Errorf("operation %s, then %s", status.Operation, again.Operation)
	}
	status = w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	if status.Attempt != 2 {
		t.Errorf("attempt %d", status.Attempt)
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// Invariants: I7.
func TestRetryEventWithoutFailureWritesNothing(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	before, writes := w.Set("web"), &kit.Saboteur{}
	drive := w.Drive(writes)
	ref := refOf(w)
	ref.Operation = ""
	send(t, drive, events.Retry, ref)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	send(t, drive, events.Retry, ref) // a request that has not begun cannot have failed
	if made := writes.Writes(); len(made) != 0 || len(drive.EventTypes) != 2 || w.Set("web").Generation != before.Generation {
		t.Errorf("writes %v, events %v", made, drive.EventTypes)
	}
	send(t, drive, events.ResizeRequested, ref)
	if status := w.Status("web"); status == nil {
		t.Error("resize.requested did not make detect-resize look")
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
}

// Invariants: I8.
func TestRetryCommandRepeatsFailedOperation(t *testing.T) {
	t.Parallel()
	w, drive := failed(t)
	operation := w.Status("web").Operation
	out, err := command(t, w, "retry", "sts/web")
	if err != nil || !mentions(out, operation, string(api.CopyFailed)) {
		t.Fatalf("%q, %v", out, err)
	}
	before := w.Set("web")
	if _, err := command(t, w, "retry", "sts/web"); err != nil || w.Set("web").ResourceVersion != before.ResourceVersion {
		t.Errorf("asking twice writes twice, or fails: %v", err)
	}
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := command(t, w, "retry", "sts/web"); err == nil || !mentions(err.Error(), w.Namespace+"/web", w.Status("web").Operation) {
		t.Errorf("while the operation runs: %v", err)
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	before = w.Set("web")
	if _, err := command(t, w, "retry", "sts/web"); err == nil ||
		!mentions(err.Error(), w.Namespace+"/web", w.Status("web").Operation, "succeeded") {
		t.Errorf("after a success: %v", err)
	}
	if w.Set("web").ResourceVersion != before.ResourceVersion {
		t.Error("a refused retry has written")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestMisplacedAnnotationIsWarnedAbout: nobody reads requests from pods, claims, Jobs and sets that are not opted in.
func TestMisplacedAnnotationIsWarnedAbout(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	must(t, w.CreateScaler("web", v1alpha1.ScalerSpec{Target: "web"}))
	foreign := kit.WorldSet("foreign", 0, "64Mi", "data")
	delete(foreign.Labels, api.ManagedLabel)
	w.CreateSet(foreign)
	if said, err := kubectl(t, w, "create", "job", "copy", "--image=none"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	onSet := "Write it on the StatefulSet: kubectl annotate -n " + w.Namespace + " sts "
	for _, row := range []struct {
		object, annotation string
		warning            string // empty: none
	}{
		{"pod/web-0", "drydock.dev/retry=now", "drydock.dev/retry has no effect on a Pod. " + onSet +
			"web drydock.dev/retry=now. The retry of a failed scaling belongs on its Scaler"},
		{"pod/web-0", "drydock.dev/retry=now", ""}, // nothing changes
		{"pod/web-0", "drydock.dev/retry=again", "drydock.dev/retry has no effect on a Pod"},
		{"pvc/data-web-0", "drydock.dev/retry=", onSet + "NAME drydock.dev/retry=. The retry"},
		{"pvc/data-web-0", "drydock.dev/resize=data=1Gi", "drydock.dev/resize has no effect on a PersistentVolumeClaim"},
		{"pvc/data-web-0", "drydock.dev/resize=data=1Gi\nlogs=1Gi", "this annotation has no effect on this object"},
		{"pvc/data-web-0", "drydock.dev/replica-of=data-web-1", ""},
		{"job/copy", "drydock.dev/abort=now", onSet + "NAME drydock.dev/abort=now"},
		{"sts/foreign", "drydock.dev/retry=now", "not opted in: give it the label drydock.dev/managed=true"},
		{"sts/web", "drydock.dev/retry=now", ""},
		{"sts/web", "drydock.dev/abort=now", ""},
		{"scaler/web", "drydock.dev/rollback=x", "drydock.dev/rollback has no effect on a Scaler. " + onSet + "NAME drydock.dev/rollback=x"},
		{"scaler/web", "drydock.dev/retry=now", ""},
	} {
		said, err := kubectl(t, w, "annotate", "--overwrite", row.object, row.annotation)
		if err != nil {
			t.Fatalf("%s on %s: %v: %s", row.annotation, row.object, err, said)
		}
		if row.warning == "" {
			if strings.Contains(said, "Warning") {
				t.Errorf("%s on %s: %s", row.annotation, row.object, said)
			}
			continue
		}
		expectMentions(t, said, "Warning: ", "drydock-misplaced'", row.warning)
	}
}

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

//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// hookWithTries returns a hook with the backoff limit.
func hookWithTries(image string, backoffLimit int32) *v1alpha1.Hook {
	hook := hookJob(image)
	hook.Job.BackoffLimit = backoffLimit
	return hook
}

// hookByHTTP returns a hook by HTTP.
func hookByHTTP(url string) *v1alpha1.Hook {
	return &v1alpha1.Hook{HTTP: &v1alpha1.HookHTTP{URL: url, Timeout: "10s"}}
}

// pods returns the pods of the Job.
func (s scalers) pods(job *batchv1.Job) []corev1.Pod {
	s.T.Helper()
	list, err := s.Kube.CoreV1().Pods(s.Namespace).List(context.Background(),
		metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// pod waits for the pod of the Job.
func (s scalers) pod(job *batchv1.Job) corev1.Pod {
	s.T.Helper()
	s.Eventually("Job "+job.Name+" has a pod", func() string {
		if len(s.pods(job)) == 0 {
			return "it has none"
		}
		return ""
	})
	return s.pods(job)[0]
}

// TestHookGetsFile: it has the same content as the variables. The kubelet writes it from the pod's annotation, and
// test/e2e reads it.
func TestHookGetsFile(t *testing.T) {
	s := scaledWorld(t, 2, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}})
	s.untilStage(v1alpha1.StageIdle, 2)
	s.hooks.hold(true)
	s.scale(0)
	pod := s.pod(s.hook("pre"))
	var facts api.HookFacts
	if err := json.Unmarshal([]byte(pod.Annotations[api.HookAnnotation]), &facts); err != nil {
		t.Fatal(err)
	}
	want := api.HookFacts{Hook: "pre", Direction: "down", Current: 2, Desired: 0, Added: []int{}, Removed: []int{0, 1},
		Namespace: s.Namespace, Set: "web", Scaler: "web", Operation: s.get("web").Status.Operation}
	if diff := cmp.Diff(want, facts); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if mounts := pod.Spec.Containers[0].VolumeMounts; !slices.ContainsFunc(mounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == api.HookDir && m.ReadOnly }) {
		t.Errorf("%+v", mounts)
	}
	s.hooks.hold(false)
	s.untilStage(v1alpha1.StageIdle, 0)
}

// TestHookMayFailSomeTimes: the Job tries again, and the scaling continues after the first success.
func TestHookMayFailSomeTimes(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookWithTries("fails", 3)}})
	s.untilStage(v1alpha1.StageIdle, 1)
	s.hooks.fail("fails")
	s.scale(2)
	job := s.hook("pre")
	s.until("a pod has failed", func(scaler *v1alpha1.Scaler) string {
		if !slices.ContainsFunc(s.pods(job), func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }) {
			return string(scaler.Status.Stage)
		}
		return ""
	})
	s.hooks.fail("")
	if scaler := s.get("web"); scaler.Status.Stage != v1alpha1.StagePreScaling || statefulset.Replicas(s.Set("web")) != 1 {
		t.Errorf("%+v", scaler.Status)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
}

// TestHookByHTTPIsPodOfNamespace: a restricted namespace admits it, and no function sends a request.
func TestHookByHTTPIsPodOfNamespace(t *testing.T) {
	const url = "http://drain.shop.svc:8080/hook?a=$(DRYDOCK_SET)"
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP(url)}})
	s.untilStage(v1alpha1.StageIdle, 1)
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	s.hooks.hold(true)
	s.scale(2)
	pod := s.pod(s.hook("pre"))
	c := pod.Spec.Containers[0]
	if want := []string{"call", "--url=http://drain.shop.svc:8080/hook?a=$$(DRYDOCK_SET)", "--timeout=10s",
		"--report=/dev/termination-log"}; !slices.Equal(c.Args, want) ||
		c.Image != s.Settings.Image || *pod.Spec.AutomountServiceAccountToken || len(pod.Spec.Containers) != 1 ||
		len(pod.Spec.Volumes) != 1 {
		t.Errorf("%+v", pod.Spec)
	}
	if n := statefulset.Replicas(s.Set("web")); n != 1 {
		t.Errorf("the set has %d replicas", n)
	}
	s.hooks.hold(false)
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "privileged") // the set's own pods are not restricted
	s.untilStage(v1alpha1.StageIdle, 2)
}

// TestSetWakesAlthoughItsScalerIsDeleted: a set with a Scaler sleeps. It wakes, and the pre hook of the scale-up runs. Then the Scaler is
// deleted. The set must get its replicas back (I4).
func TestSetWakesAlthoughItsScalerIsDeleted(t *testing.T) {
	s := idleScaledWorld(t, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	sendSetEvent(t, s.World, s.drive, events.Sleep, "web")
	s.UntilSleep(s.drive, "web", api.Asleep)
	s.untilStage(v1alpha1.StageIdle, 0)
	s.hooks.hold(true)
	sendSetEvent(t, s.World, s.drive, events.Wake, "web")
	if told := env(s.hook("pre")); told["DIRECTION"] != "up" {
		t.Errorf("the hook is told %v", told)
	}
	if err := s.Scalers().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.UntilSleep(s.drive, "web", api.Succeeded)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
}

// TestContestedCountDeletesNoClaims: the Scaler wants 3 members (conflictPolicy revert). Another client keeps scaling the
// set to 1, and after three reverts Drydock waits five minutes. The claims of members 1 and 2 must stay.
func TestContestedCountDeletesNoClaims(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	startCleaned(s.World, s.drive, s.SetWithCleanup("web", 3))
	if err := s.create("web", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 3)
	s.until("the count is contested", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False CountContested") {
			if statefulset.Replicas(s.Set("web")) == 3 {
				s.force(1)
			}
			return got
		}
		return ""
	})
	s.Eventually("the smaller count was looked at", func() string {
		ticks(t, s.drive, 1)
		set := s.Set("web")
		if l := api.LoadLedger(set); l == nil || l.Generation != set.Generation || statefulset.Replicas(set) != 1 {
			return fmt.Sprintf("the ledger is %+v", l)
		}
		return ""
	})
	ticks(t, s.drive, 2)
	record := s.Cleanup("web")
	if gone := s.Node.DeletedClaims(); len(gone) > 0 || record.Phase != api.Succeeded || record.Reason != api.CleanupReady {
		t.Errorf("deleted claims %v; cleanup %s %s: %s", gone, record.Phase, record.Reason, record.Message)
	}
}

// TestUnreadableScalerDoesNotHideOthers: the API server accepts times that Go cannot parse, and all Scalers are read as
// one list.
func TestUnreadableScalerDoesNotHideOthers(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	if err := s.create("other", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.patch("other", map[string]any{"status": map[string]any{"replicas": 1, "lastTransitionTime": "2020-01-01t00:00:00z"}}, "status")
	if err := s.drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.scale(2)
	s.untilStage(v1alpha1.StageIdle, 2)
}

// TestTenantCannotForgeHook: a successful Job with the name of a hook would let members be removed.
func TestTenantCannotForgeHook(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	_, client := tenant(t, w)
	set := w.CreateSet(kit.WorldSet("web", 1, "1Gi", "data"))
	link := api.Link{Operation: "0123456789ab", Role: api.RoleScaleHook, Namespace: w.Namespace, Set: api.SetRef{Name: "web", UID: set.UID}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: api.ScaleHookName(link.Operation, "pre"),
		Labels:      map[string]string{api.OperationLabel: link.Operation},
		Annotations: map[string]string{api.OperationAnnotation: link.Encode()}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "hook", Image: "forged"}}}}}}
	jobs := client.BatchV1().Jobs(w.Namespace)
	_, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
	expectForbidden(t, "a hook", linksPolicy, err)
	job.Labels, job.Annotations = nil, nil
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Errorf("a Job of the tenant's own: %v", err)
	}
}

// TestDeepScalerDoesNotHideOthers: a tenant nests the template of a Scaler as deeply as the API server accepts for one document.
// A list of Scalers is two levels deeper, which Go does not decode. The sweep must still find the other work, and the other Scaler
// must still scale.
func TestDeepScalerDoesNotHideOthers(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	stored := 0
	for levels := 9996; levels > 9980 && stored == 0; levels-- {
		text := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
		err := s.create(fmt.Sprint("deep-", levels), v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{
			Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}}})
		if err != nil {
			t.Logf("%d levels: %.200v", levels, err)
			continue
		}
		stored = levels
	}
	if stored == 0 {
		t.Fatal("the API server has refused each depth, so no Scaler is too deep for a list")
	}
	db := kit.WorldSet("db", 1, "64Mi", "data")
	db.Annotations = map[string]string{api.ResizeAnnotation: "data=128Mi"}
	s.CreateSet(db)
	s.Eventually("the sweep finds the resize", func() string {
		if err := s.drive.Tick(t.Context()); err != nil {
			return err.Error()
		}
		if s.Status("db") == nil {
			return "it does not"
		}
		return ""
	})
	s.scale(2)
	s.untilStage(v1alpha1.StageIdle, 2)
}

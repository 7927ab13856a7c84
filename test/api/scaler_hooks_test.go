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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/statefulset"
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

// TestTemplateWithPathOfFileIsRefused before anything runs.
func TestTemplateWithPathOfFileIsRefused(t *testing.T) {
	taken := hookJob("post")
	taken.Job.Template.Raw = []byte(
		`{"spec":{"containers":[{"name":"sh","image":"x","volumeMounts":[{"name":"x","mountPath":"/etc/drydock"}]}],` +
			`"volumes":[{"name":"x","emptyDir":{}}]}}`,
	)
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Post: taken}})
	s.untilStage(v1alpha1.StageIdle, 1)
	s.scale(2)
	s.until("the condition reports it", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False HookInvalid") ||
			!mentions(got, "hooks.post.job.template") {
			return got
		}
		return ""
	})
	if n := statefulset.Replicas(s.Set("web")); n != 1 {
		t.Errorf("the set has %d replicas", n)
	}
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

// TestRefusedCallFailsScaling: the status has the pod's message.
func TestRefusedCallFailsScaling(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookByHTTP("http://drain/hook")}})
	s.untilStage(v1alpha1.StageIdle, 1)
	s.hooks.fail(s.Settings.Image)
	s.scale(2)
	s.until("the scaling has failed", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False HookFailed") ||
			!mentions(got, "container call", " 3", "web-1 has") {
			return fmt.Sprintf("%s: %s", scaler.Status.Stage, got)
		}
		return ""
	})
}

//go:build cluster

package sim

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// scaleHooks plays the containers of hooks, and records their ends.
type scaleHooks struct {
	*kit.World
	// fails is the hook whose container exits with 3. It may be empty.
	fails string
	// deletes is the hook whose Job another client deletes once, as soon as its pod has ended. It may be empty.
	deletes string
	runs    []hookRun
}

// hookRun is the ended pod of a hook.
type hookRun struct {
	job, operation, hook, removed string
	succeeded                     bool
}

// play ends the running pods of Jobs. A node alone never ends them.
func (h *scaleHooks) play() {
	ctx, pods := context.Background(), h.Kube.CoreV1().Pods(h.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
	if err != nil {
		return // the next round tries again
	}
	for _, pod := range list.Items {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		run := runOf(&pod)
		run.succeeded = run.hook == "" || run.hook != h.fails
		code := int32(0)
		pod.Status.Phase = corev1.PodSucceeded
		if !run.succeeded {
			code, pod.Status.Phase = 3, corev1.PodFailed
		}
		ended := corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: kit.SettledEnd()}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "hook", State: corev1.ContainerState{Terminated: &ended}}}
		if _, err := pods.UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); err != nil {
			continue // the next round tries again
		}
		h.runs = append(h.runs, run)
		if h.deletes != "" && run.hook == h.deletes {
			h.deletes = ""
			h.deleteJob(run.job)
		}
	}
}

func runOf(pod *corev1.Pod) hookRun {
	run := hookRun{job: pod.Labels[batchv1.JobNameLabel]}
	for _, e := range pod.Spec.Containers[0].Env {
		switch e.Name {
		case "DRYDOCK_OPERATION":
			run.operation = e.Value
		case "DRYDOCK_HOOK":
			run.hook = e.Value
		case "DRYDOCK_REMOVED":
			run.removed = e.Value
		}
	}
	return run
}

// of returns the runs of a hook in an operation, in the Job that Drydock has created for it.
func (h *scaleHooks) of(operation, hook string) []hookRun {
	return slices.DeleteFunc(slices.Clone(h.runs), func(r hookRun) bool {
		return r.operation != operation || r.hook != hook || r.job != api.ScaleHookName(operation, hook)
	})
}

func (h *scaleHooks) deleteJob(name string) {
	background := metav1.DeletePropagationBackground
	_ = h.Kube.BatchV1().Jobs(h.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{PropagationPolicy: &background})
}

var hookNames = regexp.MustCompile(`^drydock-[0-9a-f]{12}-(pre|post|onfailure)-scaling$`)

// jobs returns the hooks that Drydock has created.
func (h *scaleHooks) jobs() []batchv1.Job {
	list, err := h.Kube.BatchV1().Jobs(h.Namespace).List(context.Background(), metav1.ListOptions{LabelSelector: api.OperationLabel})
	if err != nil {
		h.T.Error(err)
		return nil
	}
	return slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return !hookNames.MatchString(j.Name) })
}

func (h *scaleHooks) left() []string {
	var left []string
	for _, job := range h.jobs() {
		left = append(left, "job "+job.Name)
	}
	return left
}

func (s *scalingRun) createScaler(name string, replicas int32) {
	s.t.Helper()
	hook := func() *v1alpha1.Hook {
		template := `{"spec":{"containers":[{"name":"hook","image":"dev.local/busybox:1"}]}}`
		return &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
	}
	ignore(s.t, s.CreateScaler(name, v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To(replicas), ConflictPolicy: s.policy,
		Hooks: v1alpha1.ScalerHooks{Pre: hook(), Post: hook(), OnFailure: hook()}}))
}

func (s *scalingRun) patchScaler(content map[string]any, subresources ...string) {
	s.t.Helper()
	body, err := json.Marshal(content)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.Scalers().Patch(context.Background(), "web", types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	ignore(s.t, err)
}

// scale scales the Scaler like kubectl scale and an autoscaler.
func (s *scalingRun) scale(count int32) {
	s.t.Helper()
	s.patchScaler(map[string]any{"spec": map[string]any{"replicas": count}}, "scale")
}

func (s *scalingRun) annotateScaler(key string) {
	s.t.Helper()
	s.patchScaler(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: ""}}})
}

func (s *scalingRun) deleteScaler(name string) {
	s.t.Helper()
	ignore(s.t, s.Scalers().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

//go:build cluster

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/stage"
)

// executor carries out the steps of sets, as users do.
type executor struct {
	*stage.Stage
	view *view
}

// stepDeadline is many times the duration of any step on two busy processors.
const stepDeadline = 5 * time.Minute

var errStepDeadline = fmt.Errorf("the step has not ended within %s", stepDeadline)

// run carries out a step, and waits until the set is as expected.
func (e executor) run(ctx context.Context, step Step) (Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepDeadline, errStepDeadline)
	defer cancel()
	_, before, err := e.view.records(step.Before.Name)
	if err != nil {
		return Lost, err
	}
	switch step.Action {
	case Abort:
		return e.abort(ctx, step, before)
	case Refuse:
		return e.refuse(ctx, step, before)
	}
	if err := e.request(ctx, step); err != nil {
		return Lost, err
	}
	if err := e.awaitState(ctx, step, before); err != nil {
		return Lost, err
	}
	return Succeeded, nil
}

// request makes the writes of a user.
func (e executor) request(ctx context.Context, step Step) error {
	name, annotations := step.Before.Name, map[string]any{}
	if step.Request != "" {
		annotations[api.ResizeAnnotation], annotations[api.ResizeMethodAnnotation] = step.Request, string(step.Method)
	}
	switch {
	case step.Action == Sleep:
		annotations[api.PausedAnnotation] = "true"
	case step.Action == Wake && step.Before.Asleep:
		annotations[api.PausedAnnotation] = nil
	case step.Action == Wake:
		annotations[api.AwakeUntilAnnotation] = idle.FormatTime(time.Now().Add(time.Minute))
	}
	if len(annotations) > 0 {
		if err := e.annotate(ctx, name, annotations); err != nil {
			return err
		}
	}
	if step.Before.Replicas == step.After.Replicas || step.Action == Wake {
		return nil
	}
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, step.After.Replicas)
	return patiently(ctx, func() error {
		if step.Before.Kind == Scaled {
			_, err := e.Scalers().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
			return err
		}
		_, err := e.Kube.AppsV1().StatefulSets(e.Namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

// annotate writes annotations on the set. A nil value removes one.
func (e executor) annotate(ctx context.Context, set string, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	return patiently(ctx, func() error {
		_, err := e.Kube.AppsV1().StatefulSets(e.Namespace).Patch(ctx, set, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

// patiently repeats a write until the API server, which a fault may have killed, accepts it. A set is missing while a resize creates it
// again.
func patiently(ctx context.Context, write func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = write()
		if apierrors.IsForbidden(last) || apierrors.IsInvalid(last) || apierrors.IsBadRequest(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// awaitState waits until the set is as the step expects. An operation that began with the step must not fail.
func (e executor) awaitState(ctx context.Context, step Step, before Records) error {
	return e.view.await(ctx, func() (string, error) {
		live, err := e.view.live(step.After)
		if err != nil {
			return "", err
		}
		records, err := LoadRecords(live.Set)
		if err != nil {
			return "", err
		}
		if failed := FirstFailure(before, records); failed != nil {
			return "", fmt.Errorf("%s %s is %s: %s %s", failed.Kind, failed.Operation, failed.Phase, failed.Reason, failed.Message)
		}
		if problems := step.After.Problems(live); len(problems) > 0 {
			return problems[0], nil
		}
		return "", nil
	})
}

// awaitResize waits until a resize that began after the previous one meets the condition.
func (e executor) awaitResize(ctx context.Context, set string, previous *api.Resize,
	condition func(*api.Resize) bool) (*api.Resize, error) {
	var record *api.Resize
	err := e.view.await(ctx, func() (string, error) {
		_, records, err := e.view.records(set)
		if err != nil {
			return "", err
		}
		record = records.Resize
		switch {
		case record == nil || previous != nil && record.Operation == previous.Operation:
			return set + " has no new resize", nil
		case !condition(record):
			return fmt.Sprintf("%s has a resize in phase %s: %s %s", set, record.Phase, record.Reason, record.Message), nil
		}
		return "", nil
	})
	return record, err
}

func hasEnded(r *api.Resize) bool { return r.Phase.Terminal() }

// refuse makes a request that Drydock must refuse. It then removes the request, and checks that nothing has changed.
func (e executor) refuse(ctx context.Context, step Step, before Records) (Outcome, error) {
	name := step.Before.Name
	if err := e.request(ctx, step); err != nil {
		return Lost, err
	}
	record, err := e.awaitResize(ctx, name, before.Resize, hasEnded)
	if err != nil {
		return Lost, err
	}
	if record.Phase != api.Refused || record.Reason != step.Reason {
		return Lost, fmt.Errorf("resize %s is %s: %s %s", record.Operation, record.Phase, record.Reason, record.Message)
	}
	if err := e.annotate(ctx, name, map[string]any{api.ResizeAnnotation: nil, api.ResizeMethodAnnotation: nil}); err != nil {
		return Lost, err
	}
	before.Resize = record
	if err := e.awaitState(ctx, step, before); err != nil {
		return Lost, err
	}
	return RefusedAsExpected, nil
}

// abort requests a resize, aborts it unless it has ended before, and retries it.
func (e executor) abort(ctx context.Context, step Step, before Records) (Outcome, error) {
	name := step.Before.Name
	if err := e.request(ctx, step); err != nil {
		return Lost, err
	}
	if _, err := e.awaitResize(ctx, name, before.Resize, func(*api.Resize) bool { return true }); err != nil {
		return Lost, err
	}
	select {
	case <-time.After(step.Delay):
	case <-ctx.Done():
		return Lost, context.Cause(ctx)
	}
	if err := e.abortActive(ctx, name); err != nil {
		return Lost, err
	}
	record, err := e.awaitResize(ctx, name, before.Resize, hasEnded)
	if err != nil {
		return Lost, err
	}
	if err := e.annotate(ctx, name, map[string]any{api.AbortAnnotation: nil}); err != nil { // it came after the end
		return Lost, err
	}
	outcome := Succeeded
	if record.Phase == api.Failed && record.Reason == api.Aborted {
		outcome, before.Resize = AbortedThenSucceeded, record
		if err := e.annotate(ctx, name, map[string]any{api.RetryAnnotation: "now"}); err != nil {
			return Lost, err
		}
	}
	if err := e.awaitState(ctx, step, before); err != nil {
		return Lost, err
	}
	return outcome, nil
}

// abortActive aborts the set's resize if it runs.
func (e executor) abortActive(ctx context.Context, set string) error {
	return patiently(ctx, func() error {
		live, err := e.Kube.AppsV1().StatefulSets(e.Namespace).Get(ctx, set, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if record, err := api.LoadResize(live); err != nil || !record.Active() {
			return err
		}
		body := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:"now"}}}`, live.ResourceVersion, api.AbortAnnotation)
		_, err = e.Kube.AppsV1().StatefulSets(e.Namespace).Patch(ctx, set, types.MergePatchType, body, metav1.PatchOptions{})
		return err
	})
}

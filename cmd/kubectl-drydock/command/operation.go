package command

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// retry holds the state of kubectl drydock retry.
type retry struct {
	*tool
	sink    sinkFlags
	byEvent bool
}

func newRetry(t *tool) *cobra.Command {
	o := &retry{tool: t}
	c := &cobra.Command{
		Use:   "retry sts/NAME",
		Short: "Retry a failed or refused request",
		Long: "Retry a failed or refused request. The command writes the annotation " + api.RetryAnnotation + " on the StatefulSet.\n" +
			"This does not need the Broker. If an event is lost, the next tick finds the annotation.",
		Example: "  kubectl drydock retry sts/web\n  kubectl drydock retry sts/web --event",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	o.sink.add(c.Flags())
	c.Flags().BoolVar(&o.byEvent, "event", false, "send the event "+events.Retry+" instead of writing the annotation")
	return c
}

func (o *retry) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	if o.byEvent {
		return o.send(ctx, s)
	}
	var status operation.Record
	err = s.write(ctx, func(set *appsv1.StatefulSet) (patch *plan.Patch, err error) {
		if status, err = retryable(set); err != nil {
			return nil, err
		}
		return requestRetry(set, status), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s. Drydock retries it with the next event or tick\n", s.name,
		outcomeWords(status))
	return nil
}

// requestRetry returns a patch with the annotation, or an empty patch if the set has it already.
func requestRetry(set *appsv1.StatefulSet, status operation.Record) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	if id := status.Head().Operation; set.Annotations[api.RetryAnnotation] != id {
		patch.Annotate(api.RetryAnnotation, id)
	}
	return patch
}

func (o *retry) send(ctx context.Context, s *session) error {
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	status, err := retryable(set)
	if err != nil {
		return err
	}
	to, err := o.sink.open(ctx, s.raw)
	if err != nil {
		return err
	}
	if err := to.send(ctx, events.NewFromUser(events.Retry, refOf(set), uuid.NewString())); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s. The retry was sent to %s\n", set.Name, outcomeWords(status), to.name)
	to.warnOfOrderWithoutToken(o.Out, events.Retry)
	return nil
}

// retryable returns the record of the operation that a retry repeats, or an error that says why there is none.
func retryable(set *appsv1.StatefulSet) (operation.Record, error) {
	status, err := statusOf(set)
	if err != nil {
		return nil, err
	}
	records := operation.Of(set)
	request, _ := api.RequestOf(set)
	requested := api.WantsSizes(set)
	// A retry of a set that an operator makes names its operation, so an earlier one does not have to go first.
	resizeFirst := statefulset.Controller(set) != nil && requested && world.Answered(status, request) && !status.Active()
	if cleanup := records.CleanupAwaitingRetry(set); cleanup != nil && !resizeFirst {
		return cleanup, nil
	}
	if records.SleepErr != nil {
		return nil, records.SleepErr
	}
	if !requested && records.SleepRests() {
		return records.Sleep, nil
	}
	nothing := func(format string, args ...any) (operation.Record, error) {
		why := fmt.Sprintf(format, args...) + operation.RetriedOtherwise(set, records)
		return nil, fmt.Errorf("StatefulSet %s/%s: nothing to retry: %s", set.Namespace, set.Name, text.Printable(why))
	}
	switch {
	case status == nil && !requested:
		return nothing("there was no resize. Request one with the annotation %s", api.ResizeAnnotation)
	case status == nil:
		return nothing("the operation for request %s has not begun yet. Wait for the next tick", cmp.Or(request,
			set.Annotations[api.GrowToAnnotation]))
	case status.Active():
		return nothing("operation %s is still running, in phase %s", status.Operation, status.Phase)
	case status.Phase == api.Succeeded && !world.Answered(status, request):
		return nothing("operation %s (%s) succeeded", status.Operation, status.Purpose())
	case status.IsRollback() && status.Phase == api.Failed:
		return nothing("the last operation was a rollback, which failed (%s). Request it again with: "+
			"kubectl drydock rollback -n %s sts/%s", status.Message, set.Namespace, set.Name)
	case !requested:
		return nothing("operation %s (%s) is %s, and its request was withdrawn. Request it again with the annotation %s",
			status.Operation, status.Purpose(), status.Phase, api.ResizeAnnotation)
	}
	return status, nil
}

// outcomeWords returns one line about the state of an operation, with the reason.
func outcomeWords(record operation.Record) string {
	status := record.Head()
	words := fmt.Sprintf("operation %s (%s) is %s", status.Operation, status.Purpose(), status.Phase)
	if status.FailedAt != "" {
		words += fmt.Sprintf(" in phase %s", status.FailedAt)
	}
	if status.Reason != "" {
		words += fmt.Sprintf(": %s: %s", status.Reason, status.Message)
	}
	return text.Printable(words)
}

// abort holds the state of kubectl drydock abort.
type abort struct {
	*tool
	yes bool
}

func newAbort(t *tool) *cobra.Command {
	o := &abort{tool: t}
	c := &cobra.Command{
		Use:   "abort sts/NAME",
		Short: "End a running resize, rollback, sleep or cleanup",
		Long: "End the running resize, rollback, sleep or cleanup of the StatefulSet. Members that were moved stay on their new volumes,\n" +
			"the others start on their old ones. A set that sleeps wakes up. A cleanup keeps all remaining claims. A scaling cannot be ended.\n\n" +
			"The command writes the annotation " + api.AbortAnnotation + ", which Drydock removes at the end.",
		Example: "  kubectl drydock abort sts/web",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "end it without a question")
	return c
}

func (o *abort) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	record, err := abortable(set)
	if err != nil {
		return err
	}
	if err := o.consent(ctx, fmt.Sprintf("End %s of StatefulSet %s/%s?", outcomeWords(record), s.namespace, s.name), o.yes); err != nil {
		return err
	}
	id := record.Head().Operation
	err = s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		record, err := abortable(set)
		switch {
		case err != nil:
			return nil, err
		case record.Head().Operation != id:
			return nil, fmt.Errorf("StatefulSet %s/%s: operation %s has ended, and operation %s runs now. Nothing was changed", set.Namespace,
				set.Name, id, record.Head().Operation)
		}
		return plan.PatchOf(plan.StatefulSets, set).Annotate(api.AbortAnnotation, id), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: operation %s ends with the next event or tick. Follow it with: %s\n", s.name, id,
		fmt.Sprintf("kubectl drydock status -n %s sts/%s --wait", s.namespace, s.name))
	return nil
}

// abortable returns the record of the running operation, or an error if none runs. Without one, the annotation would end the next.
func abortable(set *appsv1.StatefulSet) (operation.Record, error) {
	records := operation.Of(set)
	switch {
	case records.ResizeErr != nil:
		return nil, records.ResizeErr
	case records.SleepErr != nil:
		return nil, records.SleepErr
	case records.Resize.Active():
		return records.Resize, nil
	case records.Sleep.Active():
		return records.Sleep, nil
	case records.CleanupErr != nil:
		return nil, records.CleanupErr
	case records.Cleanup.Active():
		return records.Cleanup, nil
	case records.Scale.Active():
		return nil, fmt.Errorf("StatefulSet %s/%s: operation %s scales the set, and a scaling cannot be ended. Follow it with: "+
			"kubectl describe -n %s scaler %s", set.Namespace, set.Name, records.Scale.Operation, set.Namespace,
			shellWord(text.Printable(records.Scale.Scaler.Name)))
	}
	return nil, fmt.Errorf("StatefulSet %s/%s: nothing to end: no operation is running", set.Namespace, set.Name)
}

// approval holds the state of kubectl drydock approve.
type approval struct {
	*tool
}

func newApprove(t *tool) *cobra.Command {
	o := &approval{tool: t}
	return &cobra.Command{
		Use:   "approve sts/NAME",
		Short: "Let a resize stop members that wait for your approval",
		Long: "Let the running operation stop the members of a StatefulSet with " + api.CutoverAnnotation + "=" + api.CutoverApprove + ".\n" +
			"The command writes the annotation " + api.ApproveAnnotation + ", which is valid until the operation ends. Each member\n" +
			"stops when its copies have converged and, in a rolling resize, the other members are ready.",
		Example: "  kubectl drydock approve sts/web",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
}

func (o *approval) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	var record *api.Resize
	err = s.write(ctx, func(set *appsv1.StatefulSet) (patch *plan.Patch, err error) {
		if record, err = approvable(set); err != nil {
			return nil, err
		}
		return plan.PatchOf(plan.StatefulSets, set).Annotate(api.ApproveAnnotation, record.Operation), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: operation %s may stop its members (%s), each as soon as it is prepared and movers are free\n",
		s.name, record.Operation, text.Printable(string(record.Strategy)))
	return nil
}

// approvable returns the record of the operation to approve. It returns an error if an approval would have no effect.
func approvable(set *appsv1.StatefulSet) (*api.Resize, error) {
	record, err := statusOf(set)
	refuse := func(format string, args ...any) (*api.Resize, error) {
		return nil, fmt.Errorf("StatefulSet %s/%s: nothing to approve: "+format, append([]any{set.Namespace, set.Name}, args...)...)
	}
	switch cutover := set.Annotations[api.CutoverAnnotation]; {
	case err != nil:
		return nil, err
	case record == nil:
		return refuse("there is no resize")
	case !record.Active():
		return refuse("operation %s is %s", record.Operation, record.Phase)
	case len(record.Members) == 0 && record.Phase != api.Expanding:
		return refuse("operation %s stops no member", record.Operation)
	case cutover != api.CutoverApprove:
		return refuse("its members stop without an approval. To require one: kubectl -n %s annotate sts %s %s=%s", set.Namespace, set.Name,
			api.CutoverAnnotation, api.CutoverApprove)
	}
	return record, nil
}

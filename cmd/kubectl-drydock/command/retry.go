package command

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// retry asks to take up again what failed or was refused.
type retry struct {
	*tool
	sink    sinkFlags
	byEvent bool
}

func newRetry(t *tool) *cobra.Command {
	o := &retry{tool: t}
	c := &cobra.Command{
		Use:   "retry sts/NAME",
		Short: "Take up a failed or refused request again",
		Long: "Take up a failed or refused request again, by the annotation " + api.RetryAnnotation + " on the StatefulSet.\n" +
			"That needs no way to the Broker, and the next tick finds it whatever gets lost.",
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
		return ask(set, status), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s; it is taken up again with the next event or tick\n", s.name, ending(status))
	return nil
}

// ask patches the annotation, unless it is there already.
func ask(set *appsv1.StatefulSet, status operation.Record) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, set)
	if _, asked := set.Annotations[api.RetryAnnotation]; asked {
		return patch
	}
	return patch.Annotate(api.RetryAnnotation, status.Head().Operation)
}

func (o *retry) send(ctx context.Context, s *session) error {
	set, err := s.set(ctx)
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
	if err := to.send(ctx, events.NewByHand(events.Retry, refOf(set), uuid.NewString())); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s; a retry is asked for at %s\n", set.Name, ending(status), to.name)
	to.warnOfOrder(o.Out, events.Retry)
	return nil
}

// retryable says which operation a retry takes up again, or why there is none.
func retryable(set *appsv1.StatefulSet) (operation.Record, error) {
	status, err := statusOf(set)
	if err != nil {
		return nil, err
	}
	records := operation.Of(set)
	if cleanup := records.RestingCleanup(set); cleanup != nil {
		return cleanup, nil
	}
	_, asked := set.Annotations[api.ResizeAnnotation]
	if records.SleepErr != nil {
		return nil, records.SleepErr
	}
	sleep := records.Sleep
	if !asked && sleep != nil && (sleep.Phase == api.Failed || sleep.Phase == api.Refused) {
		return sleep, nil
	}
	nothing := func(format string, args ...any) (operation.Record, error) {
		return nil, fmt.Errorf("StatefulSet %s/%s: nothing to take up again: "+format, append([]any{set.Namespace, set.Name}, args...)...)
	}
	switch {
	case status == nil && !asked:
		return nothing("there was no operation; ask for one with the annotation %s", api.ResizeAnnotation)
	case status == nil:
		return nothing("%s is asked for and no operation has begun yet; the next tick looks at it", set.Annotations[api.ResizeAnnotation])
	case status.Active():
		return nothing("operation %s runs, in phase %s", status.Operation, status.Phase)
	case status.Phase == api.Succeeded:
		return nothing("operation %s (%s) succeeded", status.Operation, status.Request)
	case status.IsRollback() && status.Phase == api.Failed:
		return nothing("the last operation was a rollback, which did not take place (%s); ask for it again with kubectl drydock rollback",
			printable(status.Message))
	case !asked:
		return nothing("operation %s (%s) ended as %s, and nothing is asked for any more; ask with the annotation %s",
			status.Operation, status.Request, status.Phase, api.ResizeAnnotation)
	}
	return status, nil
}

// ending tells in one line how an operation ended.
func ending(record operation.Record) string {
	status := record.Head()
	text := fmt.Sprintf("operation %s (%s) is %s", status.Operation, printable(status.Request), status.Phase)
	if status.FailedAt != "" {
		text += fmt.Sprintf(" since it was %s", status.FailedAt)
	}
	if status.Reason == "" {
		return text
	}
	return text + fmt.Sprintf(": %s: %s", status.Reason, printable(status.Message))
}

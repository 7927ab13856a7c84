package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

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
		o.connection().in(fmt.Sprintf("kubectl drydock status -n %s sts/%s --wait", s.namespace, s.name)))
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

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

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

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// rollback puts the volumes back that an operation has left behind.
type rollback struct {
	*tool
	operation string
	yes       bool
}

func newRollback(t *tool) *cobra.Command {
	o := &rollback{tool: t}
	c := &cobra.Command{
		Use:   "rollback sts/NAME",
		Short: "Put back the volumes that a resize has left behind",
		Long: "Put back the volumes that a resize has left behind, while they are kept, with the templates that the StatefulSet had then.\n" +
			"Members are stopped for that, together or one at a time as " + api.StrategyAnnotation +
			" says, and nothing is copied: data that was\n" +
			"written since the resize is not on these volumes. It stays on the set's present volumes, which are kept in their turn.\n\n" +
			"Without --yes it says what would come back, and does nothing. With it, the annotation " + api.RollbackAnnotation + " is written.",
		Example: "  kubectl drydock rollback sts/web\n  kubectl drydock rollback sts/web --yes",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVar(&o.operation, "operation", "", "the operation that has left the volumes behind; needed only where several have")
	c.Flags().BoolVar(&o.yes, "yes", false, "do it")
	return c
}

func (o *rollback) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.set(ctx)
	if err != nil {
		return err
	}
	in := resize.Input{Registry: owners.BuiltIn()}
	if in.Observed, err = s.client.Observe(ctx, events.Ref{Namespace: set.Namespace, Name: set.Name}); err != nil {
		return err
	}
	if in.Set == nil {
		return fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
	}
	if in.Cluster, err = s.client.Cluster(ctx, s.namespace); err != nil {
		return err
	}
	operation, err := operationToUndo(in, o.operation)
	if err != nil {
		return err
	}
	wish, err := acceptedRollback(in, operation)
	if err != nil {
		return err
	}
	if err := o.show(in, wish, operation); err != nil {
		return err
	}
	if !o.yes {
		return fmt.Errorf("nothing was done; to put these volumes back, add --yes")
	}
	err = s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		return plan.PatchOf(plan.StatefulSets, set).Annotate(api.RollbackAnnotation, operation), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: the rollback of operation %s begins with the next event or tick\n", s.name, operation)
	return nil
}

// operationToUndo is the operation whose volumes are to come back.
func operationToUndo(in resize.Input, named string) (string, error) {
	found := map[string]bool{}
	for _, v := range in.Volumes {
		if link, err := api.LoadLink(v); err == nil && link != nil && resize.Kept(v, link.Operation, in.Set.Name, link.Claim) {
			found[link.Operation] = true
		}
	}
	operations := slices.Sorted(maps.Keys(found))
	switch {
	case named != "":
		return named, nil
	case len(operations) == 1:
		return operations[0], nil
	case len(operations) == 0:
		return "", fmt.Errorf("StatefulSet %s/%s: no resize has left volumes behind that are still kept", in.Set.Namespace, in.Set.Name)
	}
	return "", fmt.Errorf("StatefulSet %s/%s: operations %s have left volumes behind; say which one with --operation", in.Set.Namespace,
		in.Set.Name, strings.Join(operations, ", "))
}

// acceptedRollback is what would come back, if nothing is in the way.
func acceptedRollback(in resize.Input, operation string) (*resize.Wish, error) {
	refuse := func(why string) error {
		return fmt.Errorf("StatefulSet %s/%s: no rollback: %s", in.Set.Namespace, in.Set.Name, why)
	}
	switch reason, err := resize.Busy(in); {
	case err != nil:
		return nil, refuse(err.Error())
	case reason != "":
		return nil, refuse(fmt.Sprintf("another operation runs, or the set sleeps (%s); wait for its end", reason))
	}
	wish := resize.Rollback(in, operation)
	problems := slices.Concat(wish.Problems, resize.PreflightRollback(in, wish, operation), resize.Unsettled(in, wish))
	if len(problems) > 0 {
		return nil, refuse(problems[0].Message)
	}
	return wish, nil
}

func (o *rollback) show(in resize.Input, wish *resize.Wish, operation string) error {
	table := tabwriter.NewWriter(o.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLAIM\tIS ON\tSIZE\tGETS BACK\tSIZE\tKEPT UNTIL")
	record := wish.Operation(in)
	for _, move := range record.Moves() {
		old := in.Volume(move.NewVolume)
		fmt.Fprintln(table, strings.Join([]string{move.Claim, move.OldVolume, move.From.String(), move.NewVolume, move.To.String(),
			printable(old.Annotations[api.RetainedUntilAnnotation])}, "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	since := "operation " + operation + " ended"
	if last, err := in.Record(); err == nil && last != nil && last.Operation == operation && last.Finished != nil {
		since = last.Finished.UTC().Format("2006-01-02 15:04:05 MST")
	}
	fmt.Fprintf(o.Out, "\n%s, and started on these volumes. Data that was written since %s is not on them: it stays on the "+
		"volumes that the set has now, which are kept from then on.\n", stopsFor(record), since)
	return nil
}

// stopsFor says how many members a rollback stops at once.
func stopsFor(record *api.Resize) string {
	if record.Strategy == api.StrategyRolling {
		return fmt.Sprintf("%d members are stopped, one at a time", len(record.Members))
	}
	return fmt.Sprintf("%d members are stopped together", len(record.Members))
}

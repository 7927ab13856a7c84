package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// cleanupView holds the state of kubectl drydock cleanup.
type cleanupView struct {
	*tool
	output string
	from   int
	yes    bool
}

// fromNone is the value of --from if it is not given.
const fromNone = -1

func newCleanup(t *tool) *cobra.Command {
	o := &cleanupView{tool: t}
	c := &cobra.Command{
		Use:   "cleanup sts/NAME",
		Short: "Show the cleanup after a scale-down, or give pods up that are expected back",
		Long: "Show the latest cleanup of the StatefulSet, and the ordinals whose cleanup pods have failed or may not run yet. A cleanup\n" +
			"begins by itself when the set is scaled down. To repeat a failed one: kubectl drydock retry.\n\n" +
			"Pods are expected back after a stop, for example a sleep or a scale-down to zero, and their claims are kept. With --from, you give\n" +
			"the pods from that ordinal on up: the cleanup pod runs on their claims, which are then deleted. The command writes the annotation\n" +
			api.CleanupFromAnnotation + ", which Drydock removes.",
		Example: "  kubectl drydock cleanup sts/web\n  kubectl drydock cleanup sts/web --from 2",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.from != fromNone {
				return o.order(c.Context(), args[0])
			}
			return o.run(c.Context(), args[0])
		},
	}
	addOutput(c.Flags(), &o.output, "json or yaml: the record of the cleanup", "json", "yaml")
	c.Flags().IntVar(&o.from, "from", fromNone, "clean up the claims of the pods from this ordinal on, which the set does not request")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "with --from: clean up without a question")
	return c
}

// order writes the order to clean up the pods from an ordinal on.
func (o *cleanupView) order(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	if err := mayOrder(set, o.from); err != nil {
		return err
	}
	question := fmt.Sprintf("Run the cleanup pod on the claims of pods %s-%d and higher of namespace %s, and then delete these claims?",
		s.name, o.from, s.namespace)
	if err := o.consent(ctx, question, o.yes); err != nil {
		return err
	}
	err = s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		if err := mayOrder(set, o.from); err != nil {
			return nil, err
		}
		return plan.PatchOf(plan.StatefulSets, set).Annotate(api.CleanupFromAnnotation, members.OrderFrom(set, o.from)), nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: the cleanup begins with the next event or tick. Follow it with: %s\n", s.name,
		fmt.Sprintf("kubectl drydock cleanup -n %s sts/%s", s.namespace, s.name))
	return nil
}

// mayOrder returns why the pods from the ordinal on cannot be given up.
func mayOrder(set *appsv1.StatefulSet, from int) error {
	if !statefulset.CleanupAsked(set) {
		return fmt.Errorf("StatefulSet %s/%s has no cleanup pod template. Write the annotation %s first, or delete the claims yourself",
			set.Namespace, set.Name, api.CleanupTemplateAnnotation)
	}
	if err := members.AddOrder(set, members.Next(set, members.Facts{Held: true}), members.OrderFrom(set, from)); err != nil {
		return fmt.Errorf("StatefulSet %s/%s: nothing was changed: %w", set.Namespace, set.Name, err)
	}
	return nil
}

func (o *cleanupView) run(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.live(ctx)
	if err != nil {
		return err
	}
	cleanup, err := api.LoadCleanup(set)
	switch {
	case err != nil:
		return err
	case o.output != "":
		return printAs(o.Out, cleanup, o.output) // null without a cleanup
	case cleanup == nil && !statefulset.CleanupAsked(set):
		fmt.Fprintf(o.Out, "statefulset.apps/%s: no cleanup. To have one after each scale-down, write the annotation %s\n", s.name,
			api.CleanupTemplateAnnotation)
		return nil
	case cleanup == nil:
		fmt.Fprintf(o.Out, "statefulset.apps/%s: no cleanup yet. One begins when the set is scaled down\n", s.name)
		return nil
	}
	if err := printCleanup(o.Out, s.name, cleanup, o.now()); err != nil {
		return err
	}
	if missing, some := members.Missing(members.Next(set, members.Facts{Held: true}), set); some {
		fmt.Fprintf(o.Out, "\nThe claims of pods %[1]s-%[2]d to %[1]s-%[3]d are kept, because these pods are expected back. "+
			"To give them up: %[4]s\n", s.name, missing.Start, missing.End-1,
			fmt.Sprintf("kubectl drydock cleanup -n %s sts/%s --from %d", s.namespace, s.name, missing.Start))
	}
	return nil
}

func printCleanup(out io.Writer, set string, c *api.Cleanup, now time.Time) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", set, outcomeWords(c))
	if len(c.Ordinals) == 0 {
		return nil
	}
	rows := [][]string{{"ORDINAL", "FAILED PODS", "NEXT TRY", "REASON", "MESSAGE"}}
	for _, ordinal := range c.Ordinals {
		rows = append(rows, []string{fmt.Sprintf("%s-%d", set, ordinal.Ordinal), fmt.Sprint(ordinal.Tries), until(ordinal.NextTry, now),
			string(ordinal.Reason), text.Printable(ordinal.Message)})
	}
	fmt.Fprintln(out)
	for _, line := range align(rows) {
		fmt.Fprintln(out, line)
	}
	return nil
}

// until returns how long it is until the time.
func until(at *metav1.Time, now time.Time) string {
	if at == nil {
		return "-"
	}
	return "in " + duration.HumanDuration(max(0, at.Sub(now)))
}

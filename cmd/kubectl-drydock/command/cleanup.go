package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// cleanupView holds the state of kubectl drydock cleanup.
type cleanupView struct {
	*tool
	output string
}

func newCleanup(t *tool) *cobra.Command {
	o := &cleanupView{tool: t}
	c := &cobra.Command{
		Use:   "cleanup sts/NAME",
		Short: "Show the cleanup after a scale-down, ordinal by ordinal",
		Long: "Show the latest cleanup of the StatefulSet, and the ordinals whose cleanup pods have failed or may not run yet. Nothing is\n" +
			"changed. A cleanup begins by itself when the set is scaled down. To repeat a failed one: kubectl drydock retry.",
		Example: "  kubectl drydock cleanup sts/web",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml: the record of the cleanup")
	return c
}

func (o *cleanupView) run(ctx context.Context, argument string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, o.output) {
		return fmt.Errorf("-o %s is not supported. Use -o json or -o yaml", o.output)
	}
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
	return printCleanup(o.Out, s.name, cleanup, o.now(), o.connection())
}

func printCleanup(out io.Writer, set string, c *api.Cleanup, now time.Time, flags connection) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", set, flags.in(outcomeWords(c)))
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
		fmt.Fprintln(out, flags.in(line))
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

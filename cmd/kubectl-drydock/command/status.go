package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"drydock.dev/cmd/kubectl-drydock/progress"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/text"
)

// statusView holds the state of kubectl drydock status.
type statusView struct {
	*tool
	output string
}

func newStatus(t *tool) *cobra.Command {
	o := &statusView{tool: t}
	c := &cobra.Command{
		Use:   "status sts/NAME",
		Short: "Show the progress of a resize, member by member, and why it waits",
		Long: "Show the progress of the latest resize or rollback of the StatefulSet: the phase of each member, the copied bytes,\n" +
			"the measured or forecast time of its stop, and why it waits. A sleep and a cleanup get a line each. Nothing is changed.",
		Example: "  kubectl drydock status sts/web\n  kubectl drydock status sts/web -o yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	c.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml: the whole status")
	return c
}

func (o *statusView) run(ctx context.Context, argument string) error {
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
	observed, err := s.client.Observe(ctx, events.Ref{Namespace: set.Namespace, Name: set.Name})
	if err != nil {
		return err
	}
	if observed.Set == nil {
		return fmt.Errorf("StatefulSet %s/%s is gone", s.namespace, s.name)
	}
	document, err := progress.New(observed)
	if err != nil {
		return err
	}
	if o.output != "" {
		return printAs(o.Out, document, o.output)
	}
	return printStatus(o.Out, document, observed.Set, observed.Now)
}

// printStatus prints the resize, member by member, and a line for each other operation.
func printStatus(out io.Writer, d *progress.Document, set *appsv1.StatefulSet, now time.Time) error {
	fmt.Fprintf(out, "statefulset.apps/%s: %s\n", d.Set, headline(d, now))
	if d.Message != "" {
		fmt.Fprintf(out, "%s: %s\n", d.Reason, text.Printable(d.Message))
	}
	for _, line := range d.Waits {
		fmt.Fprintf(out, "waits for: %s\n", text.Printable(line))
	}
	for _, record := range activeOthers(set) {
		fmt.Fprintf(out, "%s: %s\n", strings.ToLower(string(record.Head().Kind)), outcomeWords(record))
	}
	printGrowthByUsage(out, d.GrowthByUsage, now)
	return printProgress(out, d)
}

// printGrowthByUsage prints a line for each template that has grown by usage, and one for each that does not grow.
func printGrowthByUsage(out io.Writer, growth *api.Growth, now time.Time) {
	if growth == nil {
		return
	}
	for _, template := range slices.Sorted(maps.Keys(growth.Latest)) {
		asked := growth.Latest[template]
		fmt.Fprintf(out, "grew by usage: template %s to %s, %s ago: %s\n", text.Printable(template), text.Printable(asked.Size),
			duration.HumanDuration(now.Sub(asked.At.Time)), text.Printable(asked.Cause))
	}
	for _, w := range growth.Warnings {
		fmt.Fprintf(out, "does not grow: %s (%s)\n", text.Printable(w.Message), text.Printable(string(w.Reason)))
	}
}

func headline(d *progress.Document, now time.Time) string {
	if d.Operation == "" {
		return "no resize yet"
	}
	what := "resize " + text.Printable(d.Request)
	if d.Kind == api.KindRollback {
		what = "rollback"
	}
	when := "begun " + duration.HumanDuration(now.Sub(d.Started.Time)) + " ago"
	if d.Finished != nil {
		when = "ended " + duration.HumanDuration(now.Sub(d.Finished.Time)) + " ago"
	}
	words := []string{"operation " + d.Operation, when}
	if len(d.Members) > 0 {
		words = append([]string{string(d.Strategy)}, words...)
	}
	return fmt.Sprintf("%s is %s (%s)", what, d.Phase, strings.Join(words, ", "))
}

// activeOthers returns the records of the set's sleep and cleanup, if they are active.
func activeOthers(set *appsv1.StatefulSet) []operation.Record {
	var all []operation.Record
	records := operation.Of(set)
	if records.Sleep.Active() {
		all = append(all, records.Sleep)
	}
	if records.Cleanup.Active() {
		all = append(all, records.Cleanup)
	}
	return all
}

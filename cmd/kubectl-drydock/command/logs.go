package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/cmd/kubectl-drydock/logs"
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// logOptions say which lines are wanted.
type logOptions struct {
	operation                 string
	since                     time.Duration
	functionsOnly, moversOnly bool
	home                      string // the namespace of Drydock's functions
	// quotesNoErrors is set if the notes must not quote errors, which may contain whole objects.
	quotesNoErrors bool
}

// logging holds the state of kubectl drydock logs.
type logging struct {
	*tool
	options logOptions
	output  string
}

func newLogs(t *tool) *cobra.Command {
	o := &logging{tool: t}
	c := &cobra.Command{
		Use:   "logs sts/NAME",
		Short: "Show what the functions and movers logged about an operation, in order of time",
		Long: "Show the log lines of the functions, the movers, the hooks and the cleanup pods that belong to one operation on the\n" +
			"StatefulSet, in order of time. Without --operation, it is the operation that runs, or else the latest one.\n\n" +
			"A function on Knative has no pod while no event arrives, and Kubernetes keeps no logs of deleted pods. The command says which\n" +
			"logs are missing. Credentials in lines are replaced by (removed).",
		Example: "  kubectl drydock logs sts/web\n  kubectl drydock logs sts/web --since 10m --functions-only\n" +
			"  kubectl drydock logs sts/web --operation 4f3a9c21d0be -o json",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), args[0]) },
	}
	f := c.Flags()
	f.StringVar(&o.options.operation, "operation", "", "the id of the operation; by default the one that runs, or else the latest one")
	f.DurationVar(&o.options.since, "since", 0, "only lines of this last time, for example 1h")
	f.BoolVar(&o.options.functionsOnly, "functions-only", false, "only lines of functions")
	f.BoolVar(&o.options.moversOnly, "movers-only", false, "only lines of movers, hooks and cleanup pods")
	f.StringVar(&o.options.home, "drydock-namespace", api.HomeNamespace, "the namespace of Drydock's functions")
	f.StringVarP(&o.output, "output", "o", "", "json")
	c.MarkFlagsMutuallyExclusive("functions-only", "movers-only")
	return c
}

func (o *logging) run(ctx context.Context, argument string) error {
	switch {
	case !slices.Contains([]string{"", "json"}, o.output):
		return fmt.Errorf("-o %s is not supported. Use -o json", o.output)
	case o.options.since < 0:
		return fmt.Errorf("--since %s is in the future. Use a positive duration, for example 1h", o.options.since)
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := o.set(ctx, s)
	if err != nil {
		return err
	}
	scope, err := logs.NewScope(set, o.options.operation)
	if err != nil {
		return err
	}
	document, err := s.logsOf(ctx, scope, o.options, o.now())
	if err != nil {
		return err
	}
	for _, note := range document.Notes {
		fmt.Fprintln(o.ErrOut, text.Printable(note))
	}
	if o.output == "json" {
		return printAs(o.Out, document, o.output)
	}
	return printLines(o.Out, document)
}

// set reads the StatefulSet. The logs of a known operation can also be read if its set is lost. The set then has only its name.
func (o *logging) set(ctx context.Context, s *session) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	found, err := s.client.Get(ctx, plan.StatefulSets, s.namespace, s.name, set)
	switch {
	case err != nil || found:
		return set, err
	case o.options.operation == "":
		return nil, fmt.Errorf("there is no StatefulSet %s in namespace %s. Name another namespace with -n, or the operation of a lost set "+
			"with --operation", s.name, s.namespace)
	}
	set.Namespace, set.Name = s.namespace, s.name
	return set, nil
}

func printLines(out io.Writer, d *logs.Document) error {
	for _, line := range logs.Render(d.Lines) {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// logsOf reads the lines of the operation. A log that cannot be read becomes a note. It returns an error only if the context has ended.
func (s *session) logsOf(ctx context.Context, scope logs.Scope, o logOptions, now time.Time) (*logs.Document, error) {
	reading := &logReading{session: s, scope: scope, from: scope.From, quotesNoErrors: o.quotesNoErrors}
	if o.since > 0 && now.Add(-o.since).After(scope.From) {
		reading.from = now.Add(-o.since)
	}
	var sources []logs.Source
	if !o.moversOnly {
		sources = append(sources, reading.functions(ctx, o.home)...)
	}
	if !o.functionsOnly {
		sources = append(sources, reading.movers(ctx)...)
	}
	for _, source := range sources {
		reading.read(ctx, source)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n := reading.collected.Omitted(); n > 0 {
		reading.note("%s %s left out, because there are too many. Use --since, --functions-only or --movers-only.", counted(n, "line"), are(n))
	}
	d := &logs.Document{Version: logs.Version, Namespace: scope.Namespace, Set: scope.Set, Operation: scope.Operation,
		Lines: reading.collected.Merged(), Notes: reading.notes}
	if len(d.Lines) == 0 {
		d.Lines = []logs.Line{}
		d.Notes = append(d.Notes, reading.nothingFound())
	}
	return d, nil
}

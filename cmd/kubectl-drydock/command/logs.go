package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	addOutput(f, &o.output, "json", "json")
	c.MarkFlagsMutuallyExclusive("functions-only", "movers-only")
	return c
}

func (o *logging) run(ctx context.Context, argument string) error {
	if o.options.since < 0 {
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

// logReading reads logs. The notes say which are missing.
type logReading struct {
	*session
	scope     logs.Scope
	from      time.Time
	collected logs.Collector
	notes     []string
	// functionsSince is when the oldest pod of the functions was created. It is zero if none was found.
	functionsSince time.Time

	quotesNoErrors bool
}

// words returns the error for a note.
func (r *logReading) words(err error) string {
	if r.quotesNoErrors {
		return reasonOf(err)
	}
	return err.Error()
}

// reasonOf returns the reason of an error without its text, which may quote whole objects.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "there is no answer, or it cannot be read"
}

// note adds a note, unless there is the same one.
func (r *logReading) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.notes, note) {
		r.notes = append(r.notes, note)
	}
}

// nothingFound says that no line was found, and the likely cause if no other note has it: the operation is older than all logs.
func (r *logReading) nothingFound() string {
	words := fmt.Sprintf("No line of operation %s was found.", r.scope.Operation)
	if r.from.IsZero() && !r.functionsSince.IsZero() {
		words += fmt.Sprintf(" The oldest pod of the functions started at %s. Lines of an operation before it are gone, except from a log store.",
			r.functionsSince.UTC().Format(time.RFC3339))
	}
	return words
}

// join returns the names as in a sentence.
func join[T ~string](names []T) string {
	var words []string
	for _, name := range names {
		words = append(words, string(name))
	}
	slices.Sort(words)
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// noteListing notes that the logs are missing because objects could not be listed.
func (r *logReading) noteListing(whose, resource, namespace string, err error) {
	if apierrors.IsForbidden(err) {
		r.note("You may not list %s in namespace %s, so the logs of %s are missing. Ask an administrator for the right, or for these logs.",
			resource, namespace, whose)
		return
	}
	r.note("The logs of %s are missing: %s.", whose, r.words(err))
}

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// statusView holds the state of kubectl drydock status.
type statusView struct {
	*tool
	sets        listing // without the name of a set
	output      string
	watch, wait bool
	timeout     time.Duration
	rates       progress.Rates
	// outcome reports whether the wait is over, and the error if the operation did not succeed. The objects around the set are complete, or
	// none was read.
	outcome func(in *world.Observed, complete bool) (bool, error)
	// saidUnread is true when the user knows that reasons are missing.
	saidUnread bool
	said       operationLine
}

// operationLine is what a log of a wait has said about the operation.
type operationLine struct {
	phase api.Phase
	cause string
	short bool // the cause was said in the phase before
}

// next returns the line about the operation. A cause that the phase before had already, is not repeated: Failed repeats Reverting.
func (l *operationLine) next(d *progress.Document) string {
	cause := fmt.Sprintf("%s: %s", d.Reason, d.Message)
	if d.Phase != l.phase || cause != l.cause {
		l.short = d.Phase != l.phase && cause == l.cause
	}
	l.phase, l.cause = d.Phase, cause
	line := fmt.Sprintf("operation %s is %s", d.Operation, d.Phase)
	if !l.short {
		line += ": " + cause
	}
	return text.Printable(line)
}

func newStatus(t *tool) *cobra.Command {
	o := &statusView{tool: t, outcome: hasEnded}
	c := &cobra.Command{
		Use:   "status [sts/NAME]",
		Short: "Show the progress of a resize, member by member, and why it waits",
		Long: "Show the progress of the latest resize or rollback of the StatefulSet: the phase of each member, the copied bytes,\n" +
			"the measured or forecast time of its stop, and why it waits. A sleep and a cleanup get a line each. Nothing is changed.\n\n" +
			"With --wait the command ends when the resize or rollback has ended. The exit code is 0 if it succeeded or there is none, 1 if it\n" +
			"did not succeed, and 3 if it still runs after --timeout. Without a name, the command lists the sets, as kubectl drydock list does.",
		Example: "  kubectl drydock status sts/web\n  kubectl drydock status sts/web --watch\n" +
			"  kubectl drydock status sts/web --wait --timeout 30m\n  kubectl drydock status sts/web -o yaml\n  kubectl drydock status -A",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return o.list(c.Context())
			}
			return o.run(c.Context(), args[0])
		},
	}
	o.sets.addFlags(c.Flags())
	addOutput(c.Flags(), &o.output, "json or yaml: the whole status; for a list also wide or name", "json", "yaml", "wide", "name")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "show each change until you interrupt the command")
	c.Flags().BoolVar(&o.wait, "wait", false, "show each change until the operation has ended")
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "the longest time to wait, for example 30m; 0 has no limit")
	return c
}

// list lists the sets.
func (o *statusView) list(ctx context.Context) error {
	if o.watch || o.wait || o.timeout != 0 {
		return fmt.Errorf("--watch, --wait and --timeout follow one StatefulSet. Name it, for example: kubectl drydock status sts/web --watch")
	}
	o.sets.tool, o.sets.output = o.tool, o.output
	return o.sets.run(ctx)
}

func (o *statusView) run(ctx context.Context, argument string) error {
	switch {
	case o.sets.all || o.sets.selector != "":
		return fmt.Errorf("-A and -l list sets. Omit them, or omit %s", argument)
	case o.output == "wide" || o.output == "name":
		return fmt.Errorf("-o %s is for a list. Use json or yaml for one StatefulSet", o.output)
	case o.output != "" && o.watch:
		return fmt.Errorf("--watch shows text only. Omit -o, or use --wait, which prints the last status with -o")
	}
	if err := checkTimeout(o.timeout, o.wait); err != nil {
		return err
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	if _, err := s.live(ctx); err != nil {
		return err
	}
	err = o.follow(ctx, s)
	if o.watch && errors.Is(err, context.Canceled) {
		return nil // the user has seen enough
	}
	return err
}

// follow shows the status once, with --watch until the context ends, and with --wait until the operation has ended.
func (o *statusView) follow(ctx context.Context, s *session) error {
	screen := terminal.New(o.Out)
	return s.follow(ctx, o.timeout, func(observed *world.Observed) (bool, error) {
		document, err := o.document(s, observed)
		if err != nil {
			return false, err
		}
		o.rates.Add(document, observed.Now)
		done, failure := true, error(nil)
		switch {
		case o.wait:
			done, failure = o.outcome(observed, s.unread == "")
		case o.watch:
			done = false
		}
		switch {
		case o.output != "" && done:
			err = printAs(o.Out, document, o.output)
		case o.output != "":
		case screen.IsTerminal() || !o.wait && !o.watch:
			err = screen.Show(statusLines(document, observed.Set, observed.Now, screen))
		default:
			err = screen.Show(changeLines(document, &o.said))
		}
		return done, errors.Join(failure, err)
	})
}

// document returns the progress. If the user may not read the objects around the set, it has no reasons to wait, and says so once.
func (o *statusView) document(s *session, observed *world.Observed) (*progress.Document, error) {
	if s.unread == "" {
		return progress.New(observed)
	}
	if !o.saidUnread {
		fmt.Fprintf(o.ErrOut, "The reasons to wait are missing, because you lack a right: %s. Ask an administrator for it.\n", s.unread)
	}
	o.saidUnread = true
	d, err := progress.FromRecord(observed)
	if err == nil {
		d.Unread = s.unread
	}
	return d, err
}

// statusLines returns the resize, member by member, a line for each other operation, and the next step of the user.
func statusLines(d *progress.Document, set *appsv1.StatefulSet, now time.Time, t *terminal.Terminal) []string {
	lines := []string{fmt.Sprintf("statefulset.apps/%s: %s", d.Set, headline(d, now, t))}
	if d.Message != "" {
		lines = append(lines, text.Printable(fmt.Sprintf("%s: %s", d.Reason, d.Message)))
	}
	for _, line := range d.Waits {
		lines = append(lines, "waits for: "+text.Printable(line))
	}
	for _, record := range operation.Of(set).Others() {
		lines = append(lines, strings.ToLower(string(record.Head().Kind))+": "+outcomeWords(record))
	}
	lines = append(lines, warningLines(d)...)
	lines = append(lines, growthByUsageLines(d.GrowthByUsage, now)...)
	var fitting []string
	for _, line := range lines {
		fitting = append(fitting, terminal.Fold("", "  ", line, t.Width())...)
	}
	fitting = append(fitting, progressLines(d, t)...)
	if next := d.NextStep(); next != "" {
		fitting = append(append(fitting, ""), terminal.Fold("next: ", "  ", next, t.Width())...)
	}
	return fitting
}

// changeLines returns the status without the values that change with the time, for logs.
func changeLines(d *progress.Document, said *operationLine) []string {
	if d.Operation == "" {
		return nil
	}
	lines := []string{said.next(d)}
	for _, wait := range d.Waits {
		lines = append(lines, "waits for: "+text.Printable(wait))
	}
	for _, m := range d.Members {
		line := fmt.Sprintf("%s-%d is %s", d.Set, m.Ordinal, m.Phase)
		if m.Waits != "" {
			line += ", waits for " + m.Waits
		}
		lines = append(lines, text.Printable(line))
	}
	return lines
}

// shownWarnings is the number of different warnings that the status prints. The document has all.
const shownWarnings = 5

// warningLines returns the different warnings of the copies, each with the first claim that has it.
func warningLines(d *progress.Document) []string {
	var lines []string
	seen := map[string]bool{}
	for _, m := range d.Members {
		for _, c := range m.Claims {
			for _, w := range c.Warnings {
				if !seen[w] && len(seen) < shownWarnings {
					lines = append(lines, text.Printable(fmt.Sprintf("warning: the copy of claim %s: %s", c.Name, w)))
				}
				seen[w] = true
			}
		}
	}
	if more := len(seen) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more warnings. Show all with -o yaml", more))
	}
	return lines
}

// growthByUsageLines returns a line for each template that has grown by usage, and one for each that does not grow.
func growthByUsageLines(growth *api.Growth, now time.Time) []string {
	if growth == nil {
		return nil
	}
	var lines []string
	for _, template := range slices.Sorted(maps.Keys(growth.Latest)) {
		asked := growth.Latest[template]
		lines = append(lines, fmt.Sprintf("grew by usage: template %s to %s, %s ago: %s", text.Printable(template), text.Printable(asked.Size),
			progress.Age(now.Sub(asked.At.Time)), text.Printable(asked.Cause)))
	}
	for _, w := range growth.Warnings {
		lines = append(lines, fmt.Sprintf("does not grow: %s (%s)", text.Printable(w.Message), text.Printable(string(w.Reason))))
	}
	return lines
}

func headline(d *progress.Document, now time.Time, t *terminal.Terminal) string {
	if d.Operation == "" {
		return "no resize yet"
	}
	what := "resize " + text.Printable(d.Request)
	if d.Kind == api.KindRollback {
		what = "rollback"
	}
	when := "begun " + progress.Age(now.Sub(d.Started.Time)) + " ago"
	if d.Finished != nil {
		when = "ended " + progress.Age(now.Sub(d.Finished.Time)) + " ago"
	}
	words := []string{"operation " + d.Operation, when}
	if d.Finished == nil && d.Deadline != nil && d.Deadline.Time.Before(now) {
		words = append(words, "deadline passed "+progress.Age(now.Sub(d.Deadline.Time))+" ago")
	}
	if len(d.Members) > 0 {
		words = append([]string{text.Printable(string(d.Strategy))}, words...)
	}
	is := "is " + t.Styled(phaseStyle(d.Phase), string(d.Phase))
	if d.Withdrawn {
		is = "was " + string(d.Phase) + ", and is withdrawn"
	}
	return fmt.Sprintf("%s %s (%s)", what, is, strings.Join(words, ", "))
}

// phaseStyle returns the look of the phase of an operation.
func phaseStyle(phase api.Phase) terminal.Style {
	switch {
	case phase == api.Succeeded:
		return terminal.Good
	case progress.IsTrouble(phase):
		return terminal.Bad
	}
	return terminal.Attention
}

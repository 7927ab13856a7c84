package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"drydock.dev/cmd/kubectl-drydock/explain"
	"drydock.dev/cmd/kubectl-drydock/terminal"
)

// explaining holds the state of kubectl drydock explain.
type explaining struct {
	*tool
	output string
}

func newExplain(t *tool) *cobra.Command {
	o := &explaining{tool: t}
	c := &cobra.Command{
		Use:   "explain REASON|ALERT",
		Short: "Explain a reason or an alert of Drydock, and what to do",
		Long: "Explain a reason, for example from kubectl drydock status or from an Event, or an alert, and what to do about it. The\n" +
			"command needs no cluster.\n\nThe reasons are " + strings.Join(explain.Reasons(), ", ") + ".\n\n" +
			"The alerts are " + strings.Join(explain.Alerts(), ", ") + ".",
		Example: "  kubectl drydock explain UnknownClass\n  kubectl drydock explain QuotaExceeded -o yaml\n" +
			"  kubectl drydock explain DrydockNoSweep",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(explain.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	addOutput(c.Flags(), &o.output, "json or yaml", "json", "yaml")
	return c
}

func (o *explaining) run(reason string) error {
	found, ok := explain.Find(reason)
	switch {
	case !ok:
		return fmt.Errorf("there is no reason or alert %q.%s All names: kubectl drydock explain --help", reason, similar(reason))
	case o.output != "":
		return printAs(o.Out, found, o.output)
	}
	return printExplanation(o.Out, found)
}

// similar returns a hint with the names that contain the text, or "".
func similar(text string) string {
	var names []string
	for _, name := range explain.Names() {
		if strings.Contains(strings.ToLower(name), strings.ToLower(text)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Do you mean " + strings.Join(names, ", ") + "?"
}

func printExplanation(out io.Writer, e explain.Explanation) error {
	screen := terminal.New(out)
	lines := []string{screen.Styled(terminal.Bold, e.Reason) + ": " + e.Meaning}
	for _, c := range e.Cases {
		lines = append(lines, "", c.Situation)
		if c.Cause != "" {
			lines = append(lines, "  cause:      "+c.Cause)
		}
		lines = append(lines, "  what to do: "+c.Remedy)
	}
	for i, note := range e.Notes {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, note)
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

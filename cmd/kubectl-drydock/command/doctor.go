package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/cmd/kubectl-drydock/terminal"
)

// doctoring holds the state of kubectl drydock doctor.
type doctoring struct {
	*tool
	all    bool
	output string
}

func newDoctor(t *tool) *cobra.Command {
	o := &doctoring{tool: t}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation of Drydock, and show the remedy for each problem",
		Long: "Check the API server, the installation, the tick, policies, accounts, your rights, StorageClasses, images and the operators of\n" +
			"sets. Each line is ok, a note, unknown or a problem, with its remedy. A note is about an optional part. What you may not read\n" +
			"is unknown. The command changes nothing. It fails only if it finds a problem.",
		Example: "  kubectl drydock doctor\n  kubectl drydock doctor -n shop\n  kubectl drydock doctor -A -o yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "check the sets and movers of every namespace")
	c.Flags().StringVarP(&o.output, "output", "o", "", "json or yaml")
	return c
}

func (o *doctoring) run(ctx context.Context) error {
	if o.output != "" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("-o %s is not supported. Use -o json or -o yaml", o.output)
	}
	o.config.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS, config.Burst = 50, 100 // the checks are many small requests
		return config
	}
	s, err := o.connect()
	if err != nil {
		return err
	}
	if o.all {
		s.namespace = metav1.NamespaceAll
	}
	facts, err := s.facts(ctx, o.now())
	if err != nil {
		return err
	}
	findings := doctor.Diagnose(facts)
	if o.output == "" {
		err = printFindings(o.Out, findings, o.connection())
	} else {
		err = printAs(o.Out, doctor.Document{Version: doctor.Version, Findings: findings}, o.output)
	}
	if err != nil {
		return err
	}
	if problems := doctor.Problems(findings); len(problems) > 0 {
		return fmt.Errorf("the checks found problems: %s", strings.Join(problems, ", "))
	}
	return nil
}

// printFindings prints a line for each finding, and another one for its remedy.
func printFindings(out io.Writer, findings []doctor.Finding, flags connection) error {
	const gap = "   "
	var subjects, levels int // the widths of the columns
	for _, f := range findings {
		subjects, levels = max(subjects, len(f.Subject)), max(levels, len(f.Level))
	}
	screen := terminal.New(out)
	for _, f := range findings {
		level := screen.Styled(levelStyle(f.Level), string(f.Level)) + strings.Repeat(" ", levels-len(f.Level))
		lines := fmt.Sprintf("%-*s%s%s%s%s\n", subjects, f.Subject, gap, level, gap, f.State)
		if f.Remedy != "" {
			lines += fmt.Sprintf("%*s-> %s\n", subjects+levels+2*len(gap), "", flags.inOwn(f.Remedy))
		}
		if _, err := io.WriteString(out, lines); err != nil {
			return err
		}
	}
	return nil
}

func levelStyle(level doctor.Level) terminal.Style {
	switch level {
	case doctor.OK:
		return terminal.Good
	case doctor.Problem:
		return terminal.Bad
	}
	return terminal.Attention
}

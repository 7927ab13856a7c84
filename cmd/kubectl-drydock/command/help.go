package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The flags of all commands fill a screen, so that, as with kubectl, only the command options shows them.
const (
	globalFlags = "Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}"
	localFlags  = "{{if .HasAvailableLocalFlags}}\n\nFlags:"
	toOptions   = `Use "kubectl drydock options" for the flags of all commands, for example --context and --namespace.`
)

// shortenHelp removes the flags of all commands from the help of each.
func shortenHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.NewReplacer(
		globalFlags, toOptions,
		localFlags, "{{if and .HasAvailableLocalFlags .HasParent}}\n\nFlags:",
		"for more information about a command.{{end}}", "for more information about a command.\n"+toOptions+"{{end}}",
	).Replace(root.UsageTemplate()))
	root.AddCommand(newOptions())
}

func newOptions() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "Show the flags of all commands",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), "All commands have these flags:\n\n"+c.InheritedFlags().FlagUsages())
			return err
		},
	}
}

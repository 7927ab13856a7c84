// Package command implements kubectl drydock. Its subcommands
//
//	list       list the sets: what runs on them, who sleeps, what keeps the others awake
//	status     show the progress of a resize, or wait for its end; without a name, like list
//	plan       show the consequences of a resize
//	resize     plan a resize, ask, and request it
//	approve    let a resize stop members
//	abort      end a running operation
//	retry      retry a failed or refused request
//	rollback   put old volumes back
//	sleep      put a set to sleep
//	wake       wake a set
//	grow       let nearly full volumes grow
//	scale      scale a set with its hooks
//	cleanup    show the cleanup after a scale-down
//	explain    explain a reason, and what to do
//	logs       show what functions and movers logged about an operation
//	report     write an archive for a bug report
//	emit       send an event
//	redeliver  send dead letters again
//	fit        show which volumes could be smaller
//	rbac       print the rights to pause operators
//	doctor     check the installation
//	install    install or upgrade Drydock
//	uninstall  release everything, then remove Drydock
//	release    release everything before Drydock is uninstalled
//
// The commands decide from the live objects. Their writes to a StatefulSet go through plans, as those of the functions do.
package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/text"
)

// New returns the command kubectl drydock with its subcommands.
func New(streams genericiooptions.IOStreams) *cobra.Command { return newAt(streams, time.Now) }

// newAt returns the command with another clock.
func newAt(streams genericiooptions.IOStreams, now func() time.Time) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:           "kubectl-drydock",
		Short:         "Plan, watch and control what Drydock does to StatefulSets",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drydock"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return fmt.Errorf("%w. See: %s --help", err, c.CommandPath()) })
	config.AddFlags(root.PersistentFlags())
	tool := &tool{config: config, flags: root.PersistentFlags(), IOStreams: streams, now: now}
	tool.Out, tool.ErrOut = noticing{streams.Out, &tool.suggested}, noticing{streams.ErrOut, &tool.suggested}
	root.AddGroup(&cobra.Group{ID: "see", Title: "See what happens:"}, &cobra.Group{ID: "resize", Title: "Resize volumes:"},
		&cobra.Group{ID: "sleep", Title: "Sleep:"}, &cobra.Group{ID: "scale", Title: "Scale:"},
		&cobra.Group{ID: "operate", Title: "Look after Drydock:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			if strings.Contains(c.Use, "sts/NAME") {
				c.ValidArgsFunction = tool.completeSets
			}
			acceptAsKubectl(c, tool)
			root.AddCommand(c)
		}
	}
	add("see", newList(tool), newStatus(tool), newExplain(tool), newLogs(tool), newReport(tool))
	add("resize", newPlan(tool), newResize(tool), newApprove(tool), newAbort(tool), newRetry(tool), newRollback(tool), newFit(tool),
		newGrow(tool))
	add("sleep", newSleep(tool), newWake(tool))
	add("scale", newScale(tool), newCleanup(tool))
	add("operate", newDoctor(tool), newEmit(tool), newRedeliver(tool), newRBAC(tool), newRelease(tool), newInstall(tool), newUninstall(tool))
	shortenHelp(root)
	return root
}

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

// Exit codes of kubectl drydock.
const (
	// ExitFailed: the command failed, or an operation that it waited for did not succeed.
	ExitFailed = 1
	// ExitTimeout: the time of --timeout is over, and the operation still runs.
	ExitTimeout = 3
)

// errTimeout marks errors of waits that took longer than --timeout.
var errTimeout = errors.New("the time of --timeout is over")

// ExitCode returns the exit code of the process for the error of a command.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTimeout):
		return ExitTimeout
	}
	return ExitFailed
}

// ErrorText returns the error for a terminal. An error may quote other users, for example in an answer of the API server. So it has no
// control characters, and only its first line begins at the margin. If a right is missing, doctor lists all missing rights.
func ErrorText(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, text.Printable(line))
	}
	if apierrors.IsForbidden(err) {
		lines = append(lines, "Show the rights that you lack with: kubectl drydock doctor, and -n for another namespace")
	}
	return "error: " + strings.Join(lines, "\n  ") + "\n"
}

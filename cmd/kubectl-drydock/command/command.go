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
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
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
	root.AddGroup(&cobra.Group{ID: "see", Title: "See what happens:"}, &cobra.Group{ID: "resize", Title: "Resize volumes:"},
		&cobra.Group{ID: "sleep", Title: "Sleep:"}, &cobra.Group{ID: "scale", Title: "Scale:"},
		&cobra.Group{ID: "operate", Title: "Look after Drydock:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			if strings.Contains(c.Use, "sts/NAME") {
				c.ValidArgsFunction = tool.completeSets
			}
			acceptAsKubectl(c, tool.connection)
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

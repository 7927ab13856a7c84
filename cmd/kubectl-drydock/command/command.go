// Package command implements kubectl drydock. Its subcommands
//
//	plan       show the consequences of a resize
//	status     show the progress of a resize
//	approve    let a resize stop members
//	rollback   put old volumes back
//	retry      retry a failed or refused request
//	emit       send an event
//	redeliver  send dead letters again
//	fit        show which volumes could be smaller
//	rbac       print the rights to pause operators
//	doctor     check the cluster for policies
//	release    release everything before Drydock is uninstalled
//
// The commands decide from the live objects. Their writes to a StatefulSet go through plans, as those of the functions do.
package command

import (
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// New returns the command kubectl drydock with its subcommands.
func New(streams genericiooptions.IOStreams) *cobra.Command {
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
	config.AddFlags(root.PersistentFlags())
	tool := &tool{config: config, IOStreams: streams, now: time.Now}
	root.AddCommand(newPlan(tool), newStatus(tool), newApprove(tool), newRollback(tool), newEmit(tool), newRetry(tool), newRedeliver(tool),
		newRBAC(tool), newRelease(tool), newDoctor(tool), newFit(tool))
	return root
}

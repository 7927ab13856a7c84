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
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
)

// writer names this program for the executor of plans.
const writer api.Function = "kubectl"

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

// tool has the flags and streams that the commands share.
type tool struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	now    func() time.Time
}

// open returns a session for the StatefulSet that the argument names.
func (t *tool) open(argument string) (*session, error) {
	name, err := parseSet(argument)
	if err != nil {
		return nil, err
	}
	s, err := t.connect()
	if err != nil {
		return nil, err
	}
	s.name = name
	return s, nil
}

// connect returns a session for the namespace of the flags or the kubeconfig.
func (t *tool) connect() (*session, error) {
	config, err := t.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := t.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	raw, err := newRaw(config)
	if err != nil {
		return nil, err
	}
	client := kube.NewClient(config)
	return &session{client: client, raw: raw, apply: apply.New(client, writer, slog.New(slog.DiscardHandler)),
		namespace: namespace, rights: map[string]bool{}}, nil
}

// Package command is kubectl drydock: it tells the consequences of a resize and how far it is, which volumes could be smaller, approves stops, puts old volumes back, sends
// events by hand, asks for a retry, sends dead letters again, and releases everything before Drydock is uninstalled. It decides from the
// live objects, and its writes on a StatefulSet go through plans, as in the functions.
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

// writer is the name of this program for the executor of plans.
const writer api.Function = "kubectl"

// New makes the command with everything below it.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:           "kubectl-drydock",
		Short:         "Plans, progress, approvals, rollbacks, events, retries, dead letters, rights and the release of Drydock, by hand",
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

// open reaches the cluster for a command about the StatefulSet that the argument names.
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

// connect reaches the cluster and finds the namespace.
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

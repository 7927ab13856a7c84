package command

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// writer names this program for the executor of plans.
const writer api.Function = "kubectl"

// tool has the flags and streams that the commands share.
type tool struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	flags  *pflag.FlagSet // of all commands
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
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	client := kube.NewClient(config)
	return &session{client: client, raw: raw, objects: objects, refresh: refreshPeriod,
		apply:     apply.New(client, writer, slog.New(slog.DiscardHandler)),
		namespace: namespace, rights: map[string]bool{}}, nil
}

// completeSets completes the first argument of a command with the opted-in StatefulSets of the namespace. Without a cluster there are none.
func (t *tool) completeSets(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s, err := t.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	err = kube.Pages(c.Context(), s.client, plan.StatefulSets, s.namespace, api.ManagedLabel+"=true", &appsv1.StatefulSetList{},
		func(l *appsv1.StatefulSetList) {
			for i := range l.Items {
				names = append(names, "sts/"+l.Items[i].Name)
			}
		})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

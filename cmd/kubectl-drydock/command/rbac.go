package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/owners"
	"drydock.dev/shared/owners/rights"
)

// newRBAC prints the rights to pause operators. It asks no cluster.
func newRBAC(t *tool) *cobra.Command {
	var operators []string
	c := &cobra.Command{
		Use:   "rbac --owners OPERATOR,...",
		Short: "Print the ClusterRoles with which pause-owner may pause operators",
		Long: "Print the ClusterRoles with which pause-owner may pause operators, one for each. Kubernetes adds them to the\n" +
			"ClusterRole drydock-owners as soon as they are applied.",
		Example: "  kubectl drydock rbac --owners redis-operator,eck | kubectl apply -f -\n  kubectl drydock rbac --owners all",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return printRoles(t, operators) },
	}
	c.Flags().StringSliceVar(&operators, "owners", nil, "the operators, or all")
	_ = c.MarkFlagRequired("owners") // it exists
	return c
}

func printRoles(t *tool, operators []string) error {
	if len(operators) == 1 && operators[0] == "all" {
		operators = nil
	}
	roles, err := rights.Roles(owners.BuiltIn(), operators...)
	if err != nil {
		return err
	}
	for _, role := range roles {
		text, err := yaml.Marshal(role)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.Out, "---\n%s", text)
	}
	return nil
}

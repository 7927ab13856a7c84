package command

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/owners"
	"drydock.dev/shared/owners/rights"
)

// maxFile is how many bytes of a file are read. A list of rows that is longer than they are is refused for its length.
const maxFile = 1 << 20

// newRBAC prints the rights to pause and to stop operators. It asks no cluster.
func newRBAC(t *tool) *cobra.Command {
	var (
		operators  []string
		file       string
		namespaces []string
		account    string
	)
	c := &cobra.Command{
		Use:   "rbac --owners OPERATOR,...",
		Short: "Print the ClusterRoles with which Drydock may pause and stop operators",
		Long: "Print the ClusterRoles with which Drydock may pause and stop operators, one for each. Kubernetes adds them to the\n" +
			"ClusterRole drydock-owners as soon as they are applied.",
		Example: "  kubectl drydock rbac --owners redis-operator,eck | kubectl apply -f -\n  kubectl drydock rbac --owners all\n" +
			"  kubectl drydock rbac --owners all --file rows.yaml\n  kubectl drydock rbac --owners eck --in shop,search | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return printRoles(t, operators, file, account, namespaces) },
	}
	c.Flags().StringSliceVar(&operators, "owners", nil, "the operators, or all")
	c.Flags().StringVarP(&file, "file", "f", "", "rows of your own: what DRYDOCK_OWNERS has in the ConfigMap; - for standard input")
	c.Flags().StringSliceVar(&namespaces, "in", nil, "give the rights in these namespaces only, with RoleBindings, and not in every one")
	c.Flags().StringVar(&account, "account", "pause-owner", "the ServiceAccount in namespace drydock that --in gives the rights to; Drydock "+
		"works as this one on Knative and standalone")
	_ = c.MarkFlagRequired("owners") // it exists
	return c
}

func printRoles(t *tool, operators []string, file, account string, namespaces []string) error {
	registry, err := registryWith(t.In, file)
	if err != nil {
		return err
	}
	if len(operators) == 1 && operators[0] == "all" {
		operators = nil
	}
	roles, err := rights.Roles(registry, operators...)
	if err != nil {
		return err
	}
	var objects []any
	for _, role := range roles {
		objects = append(objects, role)
	}
	if len(namespaces) > 0 {
		for _, binding := range rights.Bindings(roles, account, namespaces...) {
			objects = append(objects, binding)
		}
	}
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.Out, "---\n%s", text)
	}
	return nil
}

// registryWith is the table with the rows of the file: none without a name, and those of the input for a dash.
func registryWith(in io.Reader, file string) (owners.Registry, error) {
	switch file {
	case "":
		return owners.BuiltIn(), nil
	case "-":
		return readRows(in, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading rows of owners: %w", err)
	}
	defer f.Close()
	return readRows(f, file)
}

func readRows(in io.Reader, name string) (owners.Registry, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return nil, fmt.Errorf("reading rows of owners from %s: %w", name, err)
	}
	registry, err := owners.FromSettings(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading rows of owners from %s:\n%w", name, err)
	}
	return registry, nil
}

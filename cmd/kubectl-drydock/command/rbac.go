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

// maxFile limits the bytes that are read of a file. It exceeds the longest list of rows, so that a longer list is refused for its length.
const maxFile = 1 << 20

// newRBAC returns the command that prints the rights to pause and stop operators. It needs no cluster.
func newRBAC(t *tool) *cobra.Command {
	var (
		operators  []string
		file       string
		namespaces []string
		account    string
	)
	c := &cobra.Command{
		Use:   "rbac --owners OPERATOR,...",
		Short: "Print the ClusterRoles that let Drydock pause and stop operators",
		Long: "Print the ClusterRoles that let Drydock pause and stop operators, one for each operator. Kubernetes adds them to the\n" +
			"ClusterRole drydock-owners as soon as they are applied.",
		Example: "  kubectl drydock rbac --owners redis-operator,eck | kubectl apply -f -\n  kubectl drydock rbac --owners all\n" +
			"  kubectl drydock rbac --owners all --file rows.yaml\n  kubectl drydock rbac --owners eck --in shop,search | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return printRoles(t, operators, file, account, namespaces) },
	}
	c.Flags().StringSliceVar(&operators, "owners", nil, "the operators, or all")
	c.Flags().StringVarP(&file, "file", "f", "", "a file with your own rows, in the format of DRYDOCK_OWNERS; - for standard input")
	c.Flags().StringSliceVar(&namespaces, "in", nil, "grant the rights only in these namespaces, with RoleBindings, instead of in all")
	c.Flags().StringVar(&account, "account", "pause-owner", "the ServiceAccount in namespace drydock that --in grants the rights to. "+
		"Drydock uses the default on Knative and standalone")
	_ = c.MarkFlagRequired("owners") // the flag exists
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

// registryWith returns the built-in table with the rows of the file, or of standard input if the file is "-".
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
	registry, err := owners.LoadRegistry(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading rows of owners from %s:\n%w", name, err)
	}
	return registry, nil
}

package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// setKinds are the names of the kind StatefulSet that kubectl knows.
var setKinds = []string{"sts", "statefulset", "statefulsets", "statefulset.apps", "statefulsets.apps", "statefulset.v1.apps",
	"statefulsets.v1.apps"}

// parseSet returns the name in an argument such as sts/web, statefulset/web, statefulsets.apps/web or web.
func parseSet(argument string) (string, error) {
	name := argument
	if kind, rest, typed := strings.Cut(argument, "/"); typed {
		switch {
		case kind == "" || rest == "":
			return "", fmt.Errorf("%q does not name a StatefulSet. Write sts/NAME", argument)
		case slices.Contains(setKinds, strings.ToLower(kind)):
			name = rest
		default:
			return "", fmt.Errorf("%q is a %s, and Drydock works on StatefulSets. Write sts/NAME", argument, kind)
		}
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("%q does not name a StatefulSet: %s", argument, problems[0])
	}
	return name, nil
}

// joinKind turns the arguments "sts web", which kubectl accepts too, into "sts/web".
func joinKind(args []string) []string {
	if len(args) < 2 || !slices.Contains(setKinds, strings.ToLower(args[0])) || len(validation.IsDNS1123Subdomain(args[1])) > 0 {
		return args
	}
	return append([]string{args[0] + "/" + args[1]}, args[2:]...)
}

// acceptAsKubectl makes the command accept a kind and a name as two arguments, and its errors about arguments say what to write.
// The commands that its errors suggest get the flags of the connection.
func acceptAsKubectl(c *cobra.Command, flags func() connection) {
	check, run := c.Args, c.RunE
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, joinKind(args)); err != nil {
			return fmt.Errorf("%w. Write: kubectl drydock %s. See: %s --help", err, c.Use, c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return flags().withConnection(run(c, joinKind(args)))
	}
}

// checkTimeout returns an error for a --timeout without --wait: a script would believe that the operation has ended.
func checkTimeout(timeout time.Duration, wait bool) error {
	switch {
	case timeout != 0 && !wait:
		return fmt.Errorf("--timeout limits --wait. Add --wait")
	case timeout < 0:
		return fmt.Errorf("--timeout %s is negative. Write a positive duration, for example 30m", timeout)
	}
	return nil
}

// Command gitops applies manifests with the libraries of Helm, and of Flux with its server-side apply. It also evaluates the health checks
// in config/gitops for a set, with the libraries of Argo CD and Flux. The tests on the API server run it. It is a separate module because
// of its many dependencies.
//
//	gitops helm install|upgrade NAMESPACE RELEASE CHART [--atomic] [--values=FILE]
//	gitops helm rollback|uninstall NAMESPACE RELEASE
//	gitops flux NAMESPACE FILE
//	gitops health NAMESPACE SET FOLDER
//
// It uses the cluster of $KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	args, o := optionsOf(args)
	switch {
	case len(args) == 5 && args[0] == "helm":
		return release(ctx, args[1], args[2], args[3], args[4], o)
	case len(args) == 4 && args[0] == "helm" && args[1] == "rollback":
		return rollback(args[2], args[3])
	case len(args) == 4 && args[0] == "helm" && args[1] == "uninstall":
		return uninstall(args[2], args[3])
	case len(args) == 3 && args[0] == "flux":
		return reconcile(ctx, args[1], args[2])
	case len(args) == 4 && args[0] == "health":
		return health(ctx, args[1], args[2], args[3])
	}
	return fmt.Errorf("invalid arguments %q. Use helm install|upgrade NAMESPACE RELEASE CHART [--atomic] [--values=FILE], "+
		"helm rollback|uninstall NAMESPACE RELEASE, flux NAMESPACE FILE, or health NAMESPACE SET FOLDER", args)
}

// optionsOf returns the arguments without the options, and the options.
func optionsOf(args []string) (rest []string, o options) {
	for _, arg := range args {
		switch {
		case arg == "--atomic":
			o.atomic = true
		case strings.HasPrefix(arg, "--values="):
			o.values = strings.TrimPrefix(arg, "--values=")
		default:
			rest = append(rest, arg)
		}
	}
	return rest, o
}

// Command gitops applies manifests with the libraries of Helm, and of Flux with its server-side apply. It also evaluates the health checks
// in config/gitops for a set, with the libraries of Argo CD and Flux. The tests on the API server run it. It is a separate module because
// of its many dependencies.
//
//	gitops helm install|upgrade|rollback NAMESPACE RELEASE [CHART] [--atomic]
//	gitops flux NAMESPACE FILE
//	gitops health NAMESPACE SET FOLDER
//
// It uses the cluster of $KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	atomic := slices.Contains(args, "--atomic")
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--atomic" })
	switch {
	case len(args) == 5 && args[0] == "helm" && args[1] != "rollback":
		return release(ctx, args[1], args[2], args[3], args[4], atomic)
	case len(args) == 4 && args[0] == "helm" && args[1] == "rollback":
		return rollback(args[2], args[3])
	case len(args) == 3 && args[0] == "flux":
		return reconcile(ctx, args[1], args[2])
	case len(args) == 4 && args[0] == "health":
		return health(ctx, args[1], args[2], args[3])
	}
	return fmt.Errorf("invalid arguments %q. Use helm install|upgrade NAMESPACE RELEASE CHART [--atomic], helm rollback NAMESPACE RELEASE, "+
		"flux NAMESPACE FILE, or health NAMESPACE SET FOLDER", args)
}

// Command argo compares and synchronizes a manifest with Argo CD's engine. The tests on the API server run it. It is a separate module,
// because the engine requires its own version of Kubernetes.
//
//	argo diff|sync NAMESPACE FILE [--server-side-diff] [--include-mutation-webhook] [--server-side-apply]
//
// diff prints Synced or OutOfSync. It uses the cluster of $KUBECONFIG.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/yaml"
)

// manager is the field manager of Argo CD's application controller.
const manager = "argocd-controller"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := slices.Clone(args)
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--") })
	if len(args) != 3 {
		return fmt.Errorf("invalid arguments %q. Use diff|sync NAMESPACE FILE and flags", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	wanted, err := read(args[2], args[1])
	if err != nil {
		return err
	}
	cluster := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	switch args[0] {
	case "diff":
		return compare(ctx, cluster, config, wanted, flags)
	case "sync":
		return sync(ctx, cluster, config, wanted, slices.Contains(flags, "--server-side-apply"))
	}
	return fmt.Errorf("unknown command %s. Use diff or sync", args[0])
}

func read(file, namespace string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		return nil, err
	}
	object.SetNamespace(namespace)
	return object, nil
}

// compare prints the sync status that Argo CD shows for the object.
func compare(ctx context.Context, cluster *kube.KubectlCmd, config *rest.Config, wanted *unstructured.Unstructured, flags []string) error {
	live, err := cluster.GetResource(ctx, config, wanted.GroupVersionKind(), wanted.GetName(), wanted.GetNamespace())
	if err != nil {
		return err
	}
	_, parser, err := cluster.LoadOpenAPISchema(config)
	if err != nil {
		return err
	}
	applier, end, err := cluster.ManageServerSideDiffDryRuns(config)
	if err != nil {
		return err
	}
	defer end()
	result, err := diff.Diff(wanted, live, diff.WithLogr(logr.Discard()), diff.WithGVKParser(parser), diff.WithManager(manager),
		diff.WithServerSideDiff(slices.Contains(flags, "--server-side-diff")),
		diff.WithIgnoreMutationWebhook(!slices.Contains(flags, "--include-mutation-webhook")),
		diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)))
	if err != nil {
		return err
	}
	if result.Modified {
		fmt.Println("OutOfSync")
	} else {
		fmt.Println("Synced")
	}
	return nil
}

// sync applies the object and prints the result.
func sync(ctx context.Context, cluster *kube.KubectlCmd, config *rest.Config, wanted *unstructured.Unstructured, serverSide bool) error {
	operations, end, err := cluster.ManageResources(config)
	if err != nil {
		return err
	}
	defer end()
	message, err := operations.ApplyResource(ctx, wanted, cmdutil.DryRunNone, false, true, serverSide, manager)
	fmt.Println(message)
	return err
}

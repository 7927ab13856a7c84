// Command kube is Kubernetes in one static binary: etcd, the control plane, the node agents and kubectl. It runs the
// program whose name it was called by (a link in .cluster/bin), or the program in its first argument. One binary for all
// programs means that their common packages are compiled and linked once.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs has a constructor for the command of each program. Only the selected command is made, because several of the
// constructors register global flags.
var programs = map[string]func() *cobra.Command{
	"etcd":                    newEtcdCommand,
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	newCommand, found := programs[name]
	if !found {
		fmt.Fprintf(os.Stderr, "no program %q in here; there are: %s\n", name, strings.Join(programNames(), " "))
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}

// programNames returns the names of all programs, sorted.
func programNames() []string {
	var names []string
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"drydock.dev/test/cluster/build"
	"drydock.dev/test/cluster/config"
)

// kubernetesVersion is the version of k8s.io/kubernetes in go.mod. The linker writes it into the binary, because clients reject a server
// without a version.
const kubernetesVersion = "v1.35.4"

// places holds the folders of this command.
type places struct {
	module string // the sources of this module
	state  string // .cluster
}

// findPlaces must run in the module's folder, as `go run -C` does.
func findPlaces() (places, error) {
	module, err := os.Getwd()
	if err != nil {
		return places{}, fmt.Errorf("finding the working folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(module, "kube", "main.go")); err != nil {
		return places{}, errors.New("the working folder is not test/cluster. " +
			"Run `go run -C test/cluster .` in the root of the repository")
	}
	return places{module: module, state: filepath.Join(filepath.Dir(filepath.Dir(module)), ".cluster")}, nil
}

func (p places) cluster(size config.Size) config.Cluster {
	return config.Cluster{Size: size, State: p.state}
}

func (p places) bin() string     { return filepath.Join(p.state, "bin") }
func (p places) kubectl() string { return filepath.Join(p.bin(), "kubectl") }

// csiFolder returns the folder of the CSI driver's module, which also requires the sidecars.
func (p places) csiFolder() string { return filepath.Join(p.module, "csi") }

func (p places) builder() build.Builder {
	return build.Builder{Bin: p.bin(), Step: step, Say: say}
}

// kube returns the build of Kubernetes' programs and etcd.
func (p places) kube() build.Program {
	const version = "k8s.io/component-base/version"
	flags := fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=35 "+
		"-X %[1]s.gitTreeState=clean -X %[1]s.gitCommit=none", version, kubernetesVersion)
	return build.Program{Name: "kube", Module: p.module, Folder: "kube", Flags: flags,
		Title: "Kubernetes " + kubernetesVersion + " (some minutes the first time)"}
}

// binaries compiles the programs of the cluster, one at a time, because each compile uses all processors.
func (p places) binaries(ctx context.Context, size config.Size) (config.Binaries, error) {
	b := config.Binaries{Containerd: "/usr/bin/containerd"}
	programs := []struct {
		program build.Program
		path    *string
	}{{p.kube(), &b.Kube}}
	if size == config.Node {
		programs = append(programs, []struct {
			program build.Program
			path    *string
		}{
			{build.Program{Name: "dns", Module: filepath.Join(p.module, "dns"), Title: "CoreDNS"}, &b.DNS},
			{build.Program{Name: "csi-driver", Module: p.csiFolder(), Folder: "driver", Title: "the CSI driver"}, &b.CSIDriver},
			{build.Program{Name: "csi-sidecars", Module: p.csiFolder(), Packages: config.Sidecars,
				Title: "the CSI sidecars (some minutes the first time)"}, &b.Sidecars},
		}...)
	}
	for _, each := range programs {
		path, err := p.builder().Ensure(ctx, each.program)
		if err != nil {
			return b, err
		}
		*each.path = path
	}
	return b, p.linkKubectl(b.Kube)
}

// linkKubectl links kubectl to a path that does not depend on its version.
func (p places) linkKubectl(kube string) error {
	if target, err := os.Readlink(p.kubectl()); err == nil && target == filepath.Base(kube) {
		return nil
	}
	next := p.kubectl() + ".next"
	_ = os.Remove(next) // left by a killed run
	if err := os.Symlink(filepath.Base(kube), next); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	if err := os.Rename(next, p.kubectl()); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"drydock.dev/test/cluster/build"
	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/knative"
)

// knative installs Knative on the local node. If KUBECONFIG is set, it checks the Knative of that cluster instead.
func (p places) knative(ctx context.Context) error {
	if path := os.Getenv("KUBECONFIG"); path != "" {
		return p.checkKnative(ctx, path)
	}
	start := time.Now()
	c := p.cluster(config.Node)
	if err := p.up(ctx, c); err != nil {
		return err
	}
	lock, err := p.lock(c)
	if err != nil {
		return err
	}
	defer lock.Release()
	images, err := p.knativeImages(ctx, runtime{c.ContainerdSocket()})
	if err != nil {
		return err
	}
	modules, err := p.knativeModules(ctx)
	if err != nil {
		return err
	}
	manifests, err := knative.Make(modules, images)
	if err != nil {
		return err
	}
	i := installation{kubectl: kubectl{p.kubectl(), c.Kubeconfig(), ""}, manifests: manifests}
	if err := i.ensure(ctx); err != nil {
		return err
	}
	say(fmt.Sprintf("Knative is ready after %s: %s", elapsed(start), versions(modules)))
	return nil
}

// knativeFolder returns the folder of the module that requires Knative.
func (p places) knativeFolder() string { return filepath.Join(filepath.Dir(p.module), "knative") }

// knativeBuild is a build and its programs, which become images.
type knativeBuild struct {
	program build.Program
	members []string // import paths; nil for a single program
}

// knativeBuilds returns the builds in their order. They run one at a time: a compile uses all processors, and later builds reuse
// compiled packages.
func (p places) knativeBuilds() []knativeBuild {
	several := func(name, title string, packages []string) knativeBuild {
		return knativeBuild{build.Program{Name: name, Module: p.knativeFolder(), Packages: packages, Title: title}, packages}
	}
	return []knativeBuild{
		several("knative-eventing", "Knative Eventing (some minutes the first time)", knative.Eventing),
		several("knative-serving", "Knative Serving", knative.Serving),
		{build.Program{Name: "knative-ingress", Module: p.knativeFolder(), Folder: "ingress", Title: "the ingress of Knative Services"}, nil},
	}
}

// knativeImages builds Knative's programs and imports their images. It returns the names of the images by program.
func (p places) knativeImages(ctx context.Context, r runtime) (map[string]string, error) {
	images := map[string]string{}   // by import path
	binaries := map[string]string{} // by image
	for _, b := range p.knativeBuilds() {
		path, err := p.builder().Ensure(ctx, b.program)
		if err != nil {
			return nil, err
		}
		stamp := build.StampOf(path)
		if b.members == nil {
			images[knative.Ingress] = knative.ImageName(knative.Ingress, stamp)
			binaries[images[knative.Ingress]] = path
		}
		for _, member := range b.members {
			images[member] = knative.ImageName(member, stamp)
			binaries[images[member]] = filepath.Join(path, filepath.Base(member))
		}
	}
	return images, r.importPrograms(ctx, binaries)
}

// knativeModules downloads the modules with Knative's manifests and returns their folders.
func (p places) knativeModules(ctx context.Context) ([]knative.Module, error) {
	return modulesOf(ctx, p.knativeFolder(), knative.Modules...)
}

// modulesOf downloads modules that the module in the folder requires, and returns their folders.
func modulesOf(ctx context.Context, folder string, names ...string) ([]knative.Module, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"mod", "download", "-json"}, names...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("downloading modules of %s: %w: %s", cmd.Dir, err, errorOutput(err))
	}
	var modules []knative.Module
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var m knative.Module
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return modules, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the folders of the modules of %s: %w", cmd.Dir, err)
		}
		modules = append(modules, m)
	}
}

// errorOutput returns the standard error of a command.
func errorOutput(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}

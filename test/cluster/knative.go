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

// checkKnative returns an error if the Knative of the user's cluster cannot run the functions. It changes nothing. The path is the value of
// KUBECONFIG, which may be a list of paths. kubectl reads the variable itself.
func (p places) checkKnative(ctx context.Context, path string) error {
	k, err := p.anyKubectl(path)
	if err != nil {
		return err
	}
	list, err := k.run(ctx, "get", "customresourcedefinitions", "--output=json")
	if err != nil {
		return fmt.Errorf("reading from the cluster of KUBECONFIG %s. Unset KUBECONFIG to use a cluster on this machine: %w", path, err)
	}
	kinds, err := knative.ParseKinds(list)
	if err != nil {
		return err
	}
	deployments, err := k.deployments(ctx)
	if err != nil {
		return fmt.Errorf("listing the Deployments of the cluster of KUBECONFIG %s: %w", path, err)
	}
	var missing []error
	for _, part := range knative.Parts {
		found, err := part.Survey(kinds, deployments)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		say(found)
	}
	if len(missing) > 0 {
		return fmt.Errorf("the cluster of KUBECONFIG %s cannot run the functions:\n%w", path, errors.Join(missing...))
	}
	return k.sayIngressClass(ctx)
}

// sayIngressClass prints which network layer Knative Services need. It does not check that the layer runs, because each layer has
// different pods.
func (k kubectl) sayIngressClass(ctx context.Context) error {
	class, err := k.run(ctx, "get", "configmap", "config-network", "--namespace="+knative.ServingNamespace,
		"--output=jsonpath={.data.ingress-class}")
	if err != nil {
		return fmt.Errorf("reading the ingress class of Knative Services: %w", err)
	}
	if class == "" {
		class = "istio.ingress.networking.knative.dev, Knative's default"
	}
	say("Knative Services need a network layer of the class " + class)
	return nil
}

// anyKubectl returns the kubectl in the PATH or, if there is none, the one of the local cluster. The path is the value of KUBECONFIG. It
// must have no relative path, because `go run -C` changes the working folder.
func (p places) anyKubectl(path string) (kubectl, error) {
	for _, each := range filepath.SplitList(path) {
		if !filepath.IsAbs(each) {
			return kubectl{}, fmt.Errorf("the path %s in KUBECONFIG is relative. Use an absolute path, such as KUBECONFIG=$PWD/%s", each, each)
		}
	}
	if _, err := os.Stat(path); err != nil && !strings.ContainsRune(path, filepath.ListSeparator) {
		return kubectl{}, fmt.Errorf("the file of KUBECONFIG cannot be read: %w", err)
	}
	if binary, err := exec.LookPath("kubectl"); err == nil {
		return kubectl{binary: binary}, nil
	}
	if _, err := os.Stat(p.kubectl()); err != nil {
		return kubectl{}, fmt.Errorf("kubectl is missing in the PATH, and no local cluster provides it. Install kubectl: %w", err)
	}
	return kubectl{binary: p.kubectl()}, nil
}

// versions returns the versions of the modules Eventing and Serving as text.
func versions(modules []knative.Module) string {
	var parts []string
	for _, m := range modules {
		switch m.Path {
		case "knative.dev/eventing":
			parts = append(parts, "Eventing "+m.Version)
		case "knative.dev/serving":
			parts = append(parts, "Serving "+m.Version)
		}
	}
	return strings.Join(parts, ", ")
}

// fingerprintKey is an annotation on the namespace of Knative Serving. It holds the fingerprint of the manifests that were completely
// applied. The same manifests are not applied again, because Knative itself fills in some objects.
const fingerprintKey = "cluster.drydock.dev/knative"

// Deadlines of an installation: several times the duration on a machine with two cores.
const (
	applyDeadline   = time.Minute
	knativeDeadline = 5 * time.Minute
)

// installation is Knative on the local node.
type installation struct {
	kubectl   kubectl
	manifests knative.Manifests
}

// ensure applies the manifests if they have changed, and waits until Knative works.
func (i installation) ensure(ctx context.Context) error {
	applied, err := i.kubectl.run(ctx, "get", "namespace", knative.ServingNamespace, "--ignore-not-found",
		"--output", "jsonpath={.metadata.annotations."+strings.ReplaceAll(fingerprintKey, ".", `\.`)+"}")
	if err != nil {
		return err
	}
	same := applied == i.manifests.Fingerprint()
	if !same {
		if err := i.apply(ctx); err != nil {
			return err
		}
	}
	if err := step("waiting for Knative's pods", func() error { return i.waitForDeployments(ctx) }); err != nil {
		return err
	}
	if err := step("waiting for Knative's webhooks", func() error { return i.waitForWebhooks(ctx) }); err != nil {
		return err
	}
	if same {
		return nil
	}
	_, err = i.kubectl.run(ctx, "annotate", "namespace", knative.ServingNamespace, "--overwrite", fingerprintKey+"="+i.manifests.Fingerprint())
	return err
}

// apply creates the kinds, waits until they are served, and creates the other objects. It retries the latter: while an earlier Knative
// is replaced, its webhook may be unavailable and reject everything.
func (i installation) apply(ctx context.Context) error {
	if err := step("applying Knative's kinds", func() error {
		if err := i.applyServerSide(ctx, i.manifests.Definitions); err != nil {
			return err
		}
		_, err := i.kubectl.runWithInput(ctx, i.manifests.Definitions, "wait", "--for=condition=Established",
			"--timeout="+applyDeadline.String(), "-f", "-")
		return err
	}); err != nil {
		return fmt.Errorf("applying Knative's kinds: %w", err)
	}
	err := step("applying Knative's objects", func() error {
		return retry(ctx, applyDeadline, func() error { return i.applyServerSide(ctx, i.manifests.Rest) })
	})
	if err != nil {
		return fmt.Errorf("applying Knative's objects: %w", err)
	}
	return nil
}

func (i installation) applyServerSide(ctx context.Context, manifests []byte) error {
	_, err := i.kubectl.runWithInput(ctx, manifests, "apply", "--server-side", "--force-conflicts",
		"--field-manager=drydock-cluster", "-f", "-")
	return err
}

// waitForDeployments waits until all pods of the newest generation are ready.
func (i installation) waitForDeployments(ctx context.Context) error {
	return retry(ctx, knativeDeadline, func() error {
		found, err := i.kubectl.deployments(ctx)
		if err != nil {
			return err
		}
		if waiting := knative.NotReady(i.manifests.Deployments, found); len(waiting) > 0 {
			return fmt.Errorf("not ready: %s. Run: %s --kubeconfig=%s get pods --all-namespaces",
				strings.Join(waiting, ", "), i.kubectl.binary, i.kubectl.kubeconfig)
		}
		return nil
	})
}

// waitForWebhooks waits until Knative's three webhooks answer. It creates objects of their kinds with a server-side dry run.
func (i installation) waitForWebhooks(ctx context.Context) error {
	return retry(ctx, applyDeadline, func() error {
		output, err := i.kubectl.runWithInput(ctx, []byte(knative.Probe), "create", "--dry-run=server", "--output=json", "-f", "-")
		if err != nil {
			return err
		}
		return knative.Defaulted(output)
	})
}

// retry repeats the function until it succeeds or the time is over, and returns the last error.
func retry(ctx context.Context, within time.Duration, do func() error) error {
	deadline := time.Now().Add(within)
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no success after %s: %w", within, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

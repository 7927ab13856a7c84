package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"drydock.dev/test/cluster/build"
	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
	"drydock.dev/test/cluster/image"
)

// busyboxPath is where Debian's busybox-static is.
const busyboxPath = "/usr/bin/busybox"

// runtime is the cluster's containerd.
type runtime struct{ socket string }

func (r runtime) ctr(ctx context.Context, args ...string) (string, error) {
	return host.Run(ctx, "ctr", append([]string{"--address", r.socket, "--namespace", "k8s.io"}, args...)...)
}

func (r runtime) ready(ctx context.Context) error {
	if _, err := os.Stat(r.socket); err != nil {
		return fmt.Errorf("looking for containerd's socket: %w", err)
	}
	// The plugin for Kubernetes loads last.
	list, err := r.ctr(ctx, "plugins", "list", "id==cri")
	if err != nil {
		return err
	}
	if !strings.Contains(list, "ok") {
		return errors.New("containerd's plugin for Kubernetes is not loaded")
	}
	return nil
}

// importImage makes an image known to the kubelet, unless the very same one is known already.
func (r runtime) importImage(ctx context.Context, i image.Image) error {
	built, err := i.Build()
	if err != nil {
		return err
	}
	digest, err := built.Digest()
	if err != nil {
		return fmt.Errorf("computing the digest of %s: %w", i.Name, err)
	}
	known, err := r.ctr(ctx, "images", "list", "name=="+i.Name)
	if err != nil {
		return err
	}
	if strings.Contains(known, digest.String()) {
		say(fmt.Sprintf("the image %s is there: %s", i.Name, digest))
		return nil
	}
	return step("importing the image "+i.Name, func() error { return r.load(ctx, i.Name, built) })
}

// load hands an image to containerd, by way of an archive that goes with the cluster if this run is killed.
func (r runtime) load(ctx context.Context, name string, built v1.Image) error {
	scratch := filepath.Dir(r.socket)
	archive, err := os.CreateTemp(scratch, "image-*.tar")
	if err != nil {
		return fmt.Errorf("making a temporary file: %w", err)
	}
	defer os.Remove(archive.Name())
	if err := errors.Join(image.WriteArchive(name, built, scratch, archive), archive.Close()); err != nil {
		return err
	}
	_, err = r.ctr(ctx, "images", "import", archive.Name())
	return err
}

// importBaseImages imports the images that every cluster has.
func (p places) importBaseImages(ctx context.Context, r runtime) error {
	program, err := p.builder().Ensure(ctx, build.Program{Name: "pause", Module: p.module, Folder: "pause", Title: "the pause program"})
	if err != nil {
		return err
	}
	pause, err := image.Pause(config.PauseImage, program)
	if err != nil {
		return err
	}
	shell, err := busybox(ctx)
	if err != nil {
		return err
	}
	for _, i := range []image.Image{pause, shell} {
		if err := r.importImage(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// importPrograms makes an image of each program, named like its key, and imports those whose name is not known yet.
func (r runtime) importPrograms(ctx context.Context, binaries map[string]string) error {
	list, err := r.ctr(ctx, "images", "list", "--quiet")
	if err != nil {
		return err
	}
	known := strings.Fields(list)
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(binaries)), func(name string) bool { return slices.Contains(known, name) })
	if len(missing) == 0 {
		return nil
	}
	return step(fmt.Sprintf("importing %d images", len(missing)), func() error {
		return inParallel(missing, func(name string) error {
			program, err := image.Program(name, binaries[name])
			if err != nil {
				return err
			}
			built, err := program.Build()
			if err != nil {
				return err
			}
			return r.load(ctx, name, built)
		})
	})
}

// inParallel does several things at a time, each of which is small: a few, since they wait for the disk in turns.
func inParallel(names []string, do func(name string) error) error {
	const atATime = 3
	slots, errs := make(chan struct{}, atATime), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(name)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// importProduct makes an image of the product from its binary and imports it.
func (p places) importProduct(ctx context.Context, binary string) error {
	path, err := filepath.Abs(binary)
	if err != nil {
		return fmt.Errorf("finding %s: %w", binary, err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no binary at %s; build it first, with make build in the root: %w", path, err)
	}
	r, err := p.nodeRuntime(ctx)
	if err != nil {
		return err
	}
	product, err := image.Product(path)
	if err != nil {
		return err
	}
	return r.importImage(ctx, product)
}

// nodeRuntime returns the containerd of the node, which has to run.
func (p places) nodeRuntime(ctx context.Context) (runtime, error) {
	r := runtime{p.cluster(config.Node).ContainerdSocket()}
	if err := r.ready(ctx); err != nil {
		return r, fmt.Errorf("the node does not run; start it with `up`: %w", err)
	}
	return r, nil
}

// busybox returns the image with a shell.
func busybox(ctx context.Context) (image.Image, error) {
	applets, err := host.Run(ctx, busyboxPath, "--list")
	if err != nil {
		return image.Image{}, err
	}
	return image.Busybox(busyboxPath, applets)
}

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

// busyboxPath is the path of Debian's busybox-static.
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

// importImage imports an image for the kubelet, unless containerd already has the same digest.
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
		say(fmt.Sprintf("the image %s is already imported: %s", i.Name, digest))
		return nil
	}
	return step("importing the image "+i.Name, func() error { return r.load(ctx, i.Name, built) })
}

// load imports an image through an archive file, and pins it: nothing could pull it again, so a kubelet without disk space must not remove
// it. The file is inside the cluster's folder, so that `down` removes it after a killed run.
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
	if _, err := r.ctr(ctx, "images", "import", archive.Name()); err != nil {
		return err
	}
	_, err = r.ctr(ctx, "images", "label", name, "io.cri-containerd.pinned=pinned")
	return err
}

// importBaseImages imports the images of every cluster.
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

// importPrograms builds an image of each program, with the map's key as its name, and imports the images with new names.
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

// inParallel runs small jobs in parallel. Only a few run at once, because they wait for the same disk.
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

// importProduct builds an image from the product's binary and imports it.
func (p places) importProduct(ctx context.Context, binary string) error {
	path, err := filepath.Abs(binary)
	if err != nil {
		return fmt.Errorf("finding %s: %w", binary, err)
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("the binary %s does not exist. Run make build in the root of the repository: %w", path, err)
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

// nodeRuntime returns the node's containerd, which must run.
func (p places) nodeRuntime(ctx context.Context) (runtime, error) {
	r := runtime{p.cluster(config.Node).ContainerdSocket()}
	if err := r.ready(ctx); err != nil {
		return r, fmt.Errorf("the node is not running. Start it with `up`: %w", err)
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

// redisPackages lists Debian's Redis, and those of its libraries that a minimal Debian lacks.
var redisPackages = []string{"redis-tools", "libatomic1", "libjemalloc2", "liblzf1", "libssl3", "libsystemd0"}

// importRedis builds an image of Debian's Redis with a shell, and imports it.
func (p places) importRedis(ctx context.Context) error {
	r, err := p.nodeRuntime(ctx)
	if err != nil {
		return err
	}
	root, err := host.UnpackPackages(ctx, p.bin(), redisPackages...)
	if err != nil {
		return err
	}
	shell, err := busybox(ctx)
	if err != nil {
		return err
	}
	shell.Name = "dev.local/redis:dev"
	redis, err := shell.WithPrograms(map[string]string{
		"bin/redis-server": filepath.Join(root, "usr", "bin", "redis-check-rdb"), // the same program acts by the name of its file
		"bin/redis-cli":    filepath.Join(root, "usr", "bin", "redis-cli"),
	}, root, "/")
	if err != nil {
		return err
	}
	return r.importImage(ctx, redis)
}

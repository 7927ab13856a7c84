package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// drivers applies the snapshot kinds and starts the CSI drivers with their sidecars.
func (p places) drivers(ctx context.Context, r runner) ([]config.Component, error) {
	if err := p.applySnapshotKinds(ctx, r); err != nil {
		return nil, err
	}
	controller := r.cluster.SnapshotController(r.binaries)
	if err := r.start(ctx, controller); err != nil {
		return nil, err
	}
	all := []config.Component{controller}
	for _, d := range config.Drivers {
		started, err := r.startDriver(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, started...)
	}
	return all, nil
}

// startDriver starts a driver and its sidecars. A sidecar exits when its driver restarts, so it first ends the sidecars of a replaced
// driver.
func (r runner) startDriver(ctx context.Context, d config.Driver) ([]config.Component, error) {
	driver, sidecars := r.cluster.CSIDriver(r.binaries, d), r.cluster.DriverSidecars(r.binaries, d)
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return nil, err
	}
	if !host.Running(processes, driver.Name, driver.Binary) {
		for _, sidecar := range sidecars {
			if err := host.Kill(ctx, r.cluster.Dir(), sidecar.Name, ""); err != nil {
				return nil, err
			}
		}
	}
	all := append([]config.Component{driver}, sidecars...)
	for _, component := range all {
		if err := r.start(ctx, component); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// applySnapshotKinds applies the snapshotter's custom resource definitions, then objects of these kinds.
func (p places) applySnapshotKinds(ctx context.Context, r runner) error {
	modules, err := modulesOf(ctx, p.csiFolder(), config.SnapshotModule)
	if err != nil {
		return err
	}
	if len(modules) != 1 {
		return fmt.Errorf("found %d modules with the path %s, want 1", len(modules), config.SnapshotModule)
	}
	var files []string
	for _, name := range config.SnapshotDefinitions {
		files = append(files, "-f", filepath.Join(modules[0].Dir, name))
	}
	classes, err := r.cluster.SnapshotClasses()
	if err != nil {
		return err
	}
	k := kubectl{r.kubectl, r.cluster.Kubeconfig(), ""}
	apply := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=drydock-cluster"}
	return step("applying the snapshot kinds", func() error {
		if _, err := k.run(ctx, append(slices.Clone(apply), files...)...); err != nil {
			return fmt.Errorf("applying the snapshot kinds: %w", err)
		}
		if _, err := k.run(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, files...)...); err != nil {
			return fmt.Errorf("waiting for the snapshot kinds: %w", err)
		}
		_, err := k.runWithInput(ctx, classes, append(apply, "-f", "-")...)
		return err
	})
}

// driversRegistered waits until the kubelet has registered all drivers. Pods with their volumes cannot start before that.
func (r runner) driversRegistered(ctx context.Context, kubelet config.Component) error {
	api, err := newAPI(r.cluster)
	if err != nil {
		return err
	}
	return waitFor(ctx, r.cluster, kubelet, "the CSI drivers", startDeadline, func(ctx context.Context) error {
		var node struct {
			Spec struct{ Drivers []struct{ Name string } }
		}
		if err := api.get(ctx, "/apis/storage.k8s.io/v1/csinodes/"+config.NodeName, &node); err != nil {
			return err
		}
		var missing []error
		for _, d := range config.Drivers {
			if !slices.Contains(node.Spec.Drivers, struct{ Name string }{d.Name}) {
				missing = append(missing, fmt.Errorf("driver %s is not registered", d.Name))
			}
			if _, err := os.Stat(r.cluster.DriverSocket(d)); err != nil {
				missing = append(missing, err)
			}
		}
		return errors.Join(missing...)
	})
}

package main

import (
	"context"
	"fmt"
	"os"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// runner starts the components of one cluster.
type runner struct {
	cluster  config.Cluster
	binaries config.Binaries
	kubectl  string
}

// start starts a component unless it already runs with this binary. It first ends a process of the component with another binary.
func (r runner) start(ctx context.Context, component config.Component) error {
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return err
	}
	if host.Running(processes, component.Name, component.Binary) {
		return nil
	}
	if err := host.Kill(ctx, r.cluster.Dir(), component.Name, component.Binary); err != nil {
		return err
	}
	return host.Start(r.cluster.Dir(), component.Name, component.Binary, component.Args, component.Env, r.cluster.Log(component.Name))
}

// controlPlane starts etcd, the API server and the controllers, waits until they work, and applies the cluster's own objects.
func (r runner) controlPlane(ctx context.Context) error {
	c := r.cluster
	if err := c.WriteCredentials(); err != nil {
		return err
	}
	if err := c.WriteKubeconfigs(); err != nil {
		return err
	}
	if c.Size == config.Node {
		if err := host.MakeLink(ctx, config.NodeLink, config.NodeAddress, config.ServiceRange); err != nil {
			return err
		}
	}
	etcd, server, controllers := c.Etcd(r.binaries), c.APIServerComponent(r.binaries), c.ControllerManager(r.binaries)
	for _, component := range []config.Component{etcd, server} {
		if err := r.start(ctx, component); err != nil {
			return err
		}
	}
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, c, server, "the API server", startDeadline, api.ready); err != nil {
		return err
	}
	if err := r.start(ctx, controllers); err != nil {
		return err
	}
	if err := r.applyManifests(ctx); err != nil {
		return err
	}
	const account = "/api/v1/namespaces/default/serviceaccounts/default"
	if err := waitFor(ctx, c, controllers, "the controllers", startDeadline, api.has(account)); err != nil {
		return err
	}
	return r.allRun([]config.Component{etcd, server, controllers})
}

// allRun returns an error if one of the components has ended, for example while controlPlane waited for another one.
func (r runner) allRun(components []config.Component) error {
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return err
	}
	for _, component := range components {
		if !host.Running(processes, component.Name, component.Binary) {
			return withLog(r.cluster, component.Name, fmt.Errorf("%s ended", component.Name))
		}
	}
	return nil
}

// applyManifests creates or updates the cluster's own objects with kubectl apply.
func (r runner) applyManifests(ctx context.Context) error {
	manifests, err := r.cluster.Manifests()
	if err != nil {
		return err
	}
	return step("applying the cluster's objects", func() error {
		_, err := host.RunWithInput(ctx, manifests, r.kubectl, "--kubeconfig", r.cluster.Kubeconfig(),
			"apply", "--server-side", "--force-conflicts", "--field-manager=drydock-cluster", "-f", "-")
		if err != nil {
			return fmt.Errorf("applying the cluster's objects: %w", err)
		}
		return nil
	})
}

// makeFolders creates folders in the cluster's folder.
func (r runner) makeFolders(names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(r.cluster.Path(name), 0o755); err != nil {
			return fmt.Errorf("making the folder %s: %w", name, err)
		}
	}
	return nil
}

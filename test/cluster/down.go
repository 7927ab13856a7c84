package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// downSizes takes down the cluster of one size, or all clusters.
func (p places) downSizes(ctx context.Context, size string) error {
	sizes := config.Sizes
	if size != "" {
		one, err := config.ParseSize(size)
		if err != nil {
			return err
		}
		sizes = []config.Size{one}
	}
	if _, err := os.Stat(p.state); errors.Is(err, fs.ErrNotExist) {
		return nil // no cluster was started
	}
	for _, size := range sizes {
		if err := p.down(ctx, p.cluster(size)); err != nil {
			return fmt.Errorf("taking down the cluster of size %s: %w", size, err)
		}
	}
	return nil
}

func (p places) down(ctx context.Context, c config.Cluster) error {
	lock, err := p.lock(c)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := takeDown(ctx, c); err != nil {
		return err
	}
	if other, err := otherOwner(c); c.Size == config.Node && err == nil && other == "" {
		if err := releaseMachine(); err != nil {
			return err
		}
	}
	say("the cluster of size " + string(c.Size) + " is down; its logs remain in " + c.Log("*"))
	return nil
}

// takeDown removes a cluster and all its data, in any state. It removes the data last, so that a killed run can be repeated.
func takeDown(ctx context.Context, c config.Cluster) error {
	if _, err := os.Stat(c.Dir()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := host.KillAll(ctx, c.Dir()); err != nil {
		return err
	}
	if c.Size == config.Node {
		if err := removeNode(ctx, c); err != nil {
			return err
		}
		if err := os.RemoveAll(c.Kubeconfig()); err != nil {
			return fmt.Errorf("removing the kubeconfig: %w", err)
		}
	}
	if err := os.RemoveAll(c.Dir()); err != nil {
		return fmt.Errorf("removing the cluster's data: %w", err)
	}
	return nil
}

// removeNode reverts a node's changes to the machine. Containers go first because they hold mounts; mounts hold loop devices. Resources
// with a fixed name stay if they now belong to the node of another checkout.
func removeNode(ctx context.Context, c config.Cluster) error {
	other, err := otherOwner(c)
	if err != nil {
		return err
	}
	if other != "" {
		return inOrder(ownRemovals(ctx, c))
	}
	removals := []func() error{func() error { return host.RemoveCgroup(ctx, config.CgroupRoot) }}
	removals = append(removals, ownRemovals(ctx, c)...)
	return inOrder(append(removals,
		func() error { return host.RemoveNetworkResults(config.NetworkName) },
		func() error { return host.RemoveServiceRules(ctx) },
		func() error { return host.RemoveLink(ctx, config.NodeLink) },
	))
}

// ownRemovals returns the removals of resources that are identified by the cluster's folder.
func ownRemovals(ctx context.Context, c config.Cluster) []func() error {
	return []func() error{
		func() error { return host.RemoveSockets(c.Path("containerd", "state")) },
		func() error { return host.UnmountAll(ctx, c.Dir()) },
		func() error { return host.DetachLoops(ctx, c.Dir()) },
	}
}

// inOrder stops at the first error, because each step depends on the previous ones.
func inOrder(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

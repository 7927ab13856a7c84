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

// downSizes takes down the clusters of one size, or of all.
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
		return nil // there never was one
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
	say("the cluster of size " + string(c.Size) + " is down; its logs are kept in " + c.Log("*"))
	return nil
}

// takeDown removes a cluster and all its data, whatever state it is in. The data goes last: a run that is killed
// before is repeated from the start.
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

// removeNode undoes what a node did to the machine: containers first, since they hold mounts, and mounts hold loop
// devices. What has the same name for every node stays if it is another checkout's by now.
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

// ownRemovals remove what is known by the cluster's folder.
func ownRemovals(ctx context.Context, c config.Cluster) []func() error {
	return []func() error{
		func() error { return host.RemoveSockets(c.Path("containerd", "state")) },
		func() error { return host.UnmountAll(ctx, c.Dir()) },
		func() error { return host.DetachLoops(ctx, c.Dir()) },
	}
}

// inOrder stops at the first error, since each step relies on those before.
func inOrder(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// Deadlines of waits: many times the duration on a machine with two cores.
const (
	startDeadline = 2 * time.Minute
	podDeadline   = 3 * time.Minute
)

// up starts the missing components of a cluster, and returns when the cluster is usable.
func (p places) up(ctx context.Context, c config.Cluster) error {
	start := time.Now()
	if err := p.preflight(ctx, c); err != nil {
		return err
	}
	lock, err := p.lock(c)
	if err != nil {
		return err
	}
	defer lock.Release()
	if c.Size == config.Node {
		if err := claimMachine(c); err != nil {
			return err
		}
	}
	binaries, err := p.binaries(ctx, c.Size)
	if err != nil {
		return err
	}
	if err := p.clearRemains(ctx, c); err != nil {
		return err
	}
	r := runner{c, binaries, p.kubectl()}
	if err := r.controlPlane(ctx); err != nil {
		return err
	}
	if c.Size == config.Node {
		if err := p.node(ctx, r); err != nil {
			return err
		}
	}
	if err := writeMark(c); err != nil {
		return err
	}
	say(fmt.Sprintf("the cluster of size %s is up after %s: export KUBECONFIG=%s", c.Size, elapsed(start), c.Kubeconfig()))
	return nil
}

func (p places) preflight(ctx context.Context, c config.Cluster) error {
	if err := c.CheckPaths(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.state, 0o755); err != nil {
		return fmt.Errorf("making the folder of clusters: %w", err)
	}
	if c.Size != config.Node {
		return nil
	}
	if err := host.CheckNode(); err != nil {
		return err
	}
	return host.InstallPackages(ctx, say)
}

// lock serializes changes of a cluster.
func (p places) lock(c config.Cluster) (host.Lock, error) {
	return host.TakeLock(filepath.Join(p.state, string(c.Size)+".lock"), func() {
		say("waiting for another run on the cluster of size " + string(c.Size))
	})
}

// mark returns the content of the file "complete" of a finished cluster: the machine's boot id and the fingerprint of the configuration.
// A cluster with another mark cannot be continued.
func mark(c config.Cluster) (string, error) {
	boot, err := host.BootID()
	if err != nil {
		return "", err
	}
	fingerprint, err := c.Fingerprint()
	if err != nil {
		return "", err
	}
	return boot + " " + fingerprint + "\n", nil
}

func writeMark(c config.Cluster) error {
	text, err := mark(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.Path("complete"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("marking the cluster as complete: %w", err)
	}
	return nil
}

// clearRemains takes down a cluster that cannot be continued: after a killed `up`, after a reboot, or with another configuration.
func (p places) clearRemains(ctx context.Context, c config.Cluster) error {
	want, err := mark(c)
	if err != nil {
		return err
	}
	found, err := os.ReadFile(c.Path("complete"))
	if err == nil && string(found) == want {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the mark of a complete cluster: %w", err)
	}
	if _, err := os.Stat(c.Dir()); err == nil {
		say("taking down the cluster of an earlier run, which cannot be continued")
	}
	if err := takeDown(ctx, c); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(c.Log(""))); err != nil {
		return fmt.Errorf("removing the logs of an earlier cluster: %w", err)
	}
	return nil
}

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

// ownerFile holds the folder of this machine's only node. All nodes use the same addresses, rules and cgroups. Like them the file
// disappears with a reboot.
const ownerFile = "/run/drydock-cluster-node"

// claimMachine returns an error if the node of another checkout is running.
func claimMachine(c config.Cluster) error {
	other, err := otherOwner(c)
	if err != nil {
		return err
	}
	if other != "" {
		processes, err := host.Processes(other)
		if err != nil {
			return err
		}
		if len(processes) > 0 {
			return fmt.Errorf("this machine already runs a node of another checkout in %s. Use it, or take it down there first", other)
		}
	}
	if err := os.WriteFile(ownerFile, []byte(c.Dir()+"\n"), 0o644); err != nil {
		return fmt.Errorf("claiming this machine for the node: %w", err)
	}
	return nil
}

// otherOwner returns the folder of another checkout's node, or an empty text.
func otherOwner(c config.Cluster) (string, error) {
	text, err := os.ReadFile(ownerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the owner of this machine's node: %w", err)
	}
	if owner := strings.TrimSpace(string(text)); owner != c.Dir() {
		return owner, nil
	}
	return "", nil
}

// releaseMachine allows another checkout to start a node.
func releaseMachine() error {
	if err := os.Remove(ownerFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("releasing this machine: %w", err)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

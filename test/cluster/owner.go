package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// ownerFile names the folder of the one node that this machine can have, since addresses, rules and cgroups of nodes
// are the same. It is gone after a reboot, as they are.
const ownerFile = "/run/drydock-cluster-node"

// claimMachine refuses to start a node while that of another checkout runs.
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
			return fmt.Errorf("this machine already runs a node, from another checkout, in %s: use that one, or take it down there first", other)
		}
	}
	if err := os.WriteFile(ownerFile, []byte(c.Dir()+"\n"), 0o644); err != nil {
		return fmt.Errorf("claiming this machine for the node: %w", err)
	}
	return nil
}

// otherOwner is the folder of another checkout's node, or empty.
func otherOwner(c config.Cluster) (string, error) {
	text, err := os.ReadFile(ownerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading whose node this machine runs: %w", err)
	}
	if owner := strings.TrimSpace(string(text)); owner != c.Dir() {
		return owner, nil
	}
	return "", nil
}

// releaseMachine lets another checkout start a node.
func releaseMachine() error {
	if err := os.Remove(ownerFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("releasing this machine: %w", err)
	}
	return nil
}

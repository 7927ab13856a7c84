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

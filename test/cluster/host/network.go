package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// MakeLink makes a bridge without ports that carries one address: a stable address of this machine which no other
// machine can reach. It also gets a route to the Services, whose addresses would otherwise be unreachable on a machine
// that is offline: kube-proxy rewrites them only after a route was found.
func MakeLink(ctx context.Context, name, address, services string) error {
	var commands [][]string
	if !hasAddress(name, address) {
		if err := RemoveLink(ctx, name); err != nil {
			return err
		}
		commands = [][]string{
			{"link", "add", name, "type", "bridge"},
			{"address", "add", address + "/32", "dev", name},
		}
	}
	commands = append(commands, []string{"link", "set", name, "up"}, []string{"route", "replace", services, "dev", name})
	for _, args := range commands {
		if _, err := Run(ctx, "ip", args...); err != nil {
			return fmt.Errorf("making the node's address: %w", err)
		}
	}
	return nil
}

// RemoveLink removes a link where there is one.
func RemoveLink(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil // there is none
	}
	if _, err := Run(ctx, "ip", "link", "delete", name); err != nil {
		return fmt.Errorf("removing the node's address: %w", err)
	}
	return nil
}

func hasAddress(name, address string) bool {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	addresses, err := link.Addrs()
	if err != nil {
		return false
	}
	for _, found := range addresses {
		if strings.HasPrefix(found.String(), address+"/") {
			return true
		}
	}
	return false
}

// RemoveServiceRules removes the nftables rules of kube-proxy, which outlive it.
func RemoveServiceRules(ctx context.Context) error {
	for _, family := range []string{"ip", "ip6"} {
		if _, err := Run(ctx, "nft", "list", "table", family, "kube-proxy"); err != nil {
			continue // there is none
		}
		if _, err := Run(ctx, "nft", "delete", "table", family, "kube-proxy"); err != nil {
			return fmt.Errorf("removing the rules of Services: %w", err)
		}
	}
	return nil
}

// RemoveNetworkResults removes what the network plugins' library remembers of pods of this network; it has no other
// place for it than this one.
func RemoveNetworkResults(network string) error {
	files, err := filepath.Glob(filepath.Join("/var/lib/cni/results", network+"-*"))
	if err != nil {
		return fmt.Errorf("listing the pods' networks: %w", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("removing a pod's network: %w", err)
		}
	}
	return nil
}

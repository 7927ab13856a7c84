package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// MakeLink creates a bridge without ports that has one address. The address is stable, and other machines cannot reach it. MakeLink also
// adds a route to the Services. Without a route, an offline machine could not reach them: kube-proxy rewrites an address only after the
// kernel has found a route.
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
			return fmt.Errorf("adding the node's address: %w", err)
		}
	}
	return nil
}

// RemoveLink removes a link if it exists.
func RemoveLink(ctx context.Context, name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil // it does not exist
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

// RemoveServiceRules removes kube-proxy's nftables rules, which remain after its end.
func RemoveServiceRules(ctx context.Context) error {
	for _, family := range []string{"ip", "ip6"} {
		if _, err := Run(ctx, "nft", "list", "table", family, "kube-proxy"); err != nil {
			continue // it does not exist
		}
		if _, err := Run(ctx, "nft", "delete", "table", family, "kube-proxy"); err != nil {
			return fmt.Errorf("removing the rules of Services: %w", err)
		}
	}
	return nil
}

// RemoveNetworkResults removes the cached results of the network plugins for pods of this network. The plugins' library has a fixed folder
// for them.
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

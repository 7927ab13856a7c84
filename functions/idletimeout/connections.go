package idletimeout

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSeries limits the result of a query. A larger result is an error, because it could be truncated.
const maxSeries = 100

// stateEstablished is TCP_ESTABLISHED (Linux include/net/tcp_states.h).
const stateEstablished = "01"

// countConnections returns the number of established connections to the local port in the kernel's tables (proc_net_tcp(5)). It skips
// connections from the pod itself, such as a health check over the loopback, and connections from peers.
func countConnections(table string, port int, peers map[string]bool) (int, error) {
	n, seen := 0, false
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		if fields[0] == "sl" {
			seen = true
			continue
		}
		address, local, ok := strings.Cut(fields[1], ":")
		remote, _, okRemote := strings.Cut(fields[2], ":")
		number, err := strconv.ParseUint(local, 16, 16)
		if !ok || !okRemote || err != nil {
			return 0, fmt.Errorf("line %.200q is not an entry of /proc/net/tcp", strings.TrimSpace(line))
		}
		if fields[3] == stateEstablished && int(number) == port && address != remote && !isPeer(remote, peers) {
			n++
		}
	}
	if !seen {
		return 0, errors.New("the pod printed no table of connections")
	}
	return n, nil
}

// isPeer reports whether the address from the kernel's table belongs to a peer. An unreadable address does not.
func isPeer(text string, peers map[string]bool) bool {
	address, ok := kernelAddress(text)
	return ok && peers[address]
}

// ipv4MappedPrefix starts an IPv6 address that stands for an IPv4 address.
const ipv4MappedPrefix = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// kernelAddress returns the bytes of an address from the kernel's table. The kernel prints words of four bytes in hexadecimal, in the
// byte order of the machine. The function assumes little-endian, as on common Kubernetes nodes. On a big-endian node no address
// matches a peer, so every connection counts.
func kernelAddress(text string) (string, bool) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != 4 && len(bytes) != 16 {
		return "", false
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	return strings.TrimPrefix(string(bytes), ipv4MappedPrefix), true
}

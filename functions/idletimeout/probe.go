package idletimeout

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostSeries bounds the result of a query. A result of more is not read, because a part of it could be missing.
const mostSeries = 100

// stateEstablished is TCP_ESTABLISHED of the kernel's include/net/tcp_states.h.
const stateEstablished = "01"

// established counts the connections to the local port in the kernel's tables (proc_net_tcp(5)), but those from the pod itself, as
// a health check over the loopback, and those from peers.
func established(table string, port int, peers map[string]bool) (int, error) {
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
			return 0, fmt.Errorf("line %.200q is not of the kernel's table", strings.TrimSpace(line))
		}
		if fields[3] == stateEstablished && int(number) == port && address != remote && !isPeer(remote, peers) {
			n++
		}
	}
	if !seen {
		return 0, errors.New("the pod has no table of connections")
	}
	return n, nil
}

// isPeer reports whether the address of the kernel's table is a peer's. One that cannot be read is not.
func isPeer(text string, peers map[string]bool) bool {
	address, ok := kernelAddress(text)
	return ok && peers[address]
}

// mapped begins an IPv6 address that stands for one of IPv4.
const mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"

// kernelAddress returns the bytes of an address that the kernel prints: words of four bytes in hexadecimal, each in the byte order of
// the machine, which is little-endian where Kubernetes is common. On another machine no address is a peer's, and every connection
// counts.
func kernelAddress(text string) (string, bool) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != 4 && len(bytes) != 16 {
		return "", false
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	return strings.TrimPrefix(string(bytes), mapped), true
}

package idletimeout

import (
	"bytes"
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

// maxLine limits a line of the kernel's tables. The kernel's lines have at most 200 bytes.
const maxLine = 1 << 10

// connections counts the established connections to a local port in the kernel's tables (proc_net_tcp(5)), which are written to it. It
// skips connections from the pod itself, such as a health check over the loopback, and connections from peers. It keeps no more than a
// line, because a pod can print anything.
type connections struct {
	port  int
	peers map[string]bool
	n     int    // connections so far
	seen  bool   // a table has begun
	line  []byte // the beginning of the next line
	err   error  // the first line that is not of a table
}

// Write reads the lines that p completes. Its error stays, because client-go only logs errors of the writer of a command's output
// (tools/remotecommand).
func (c *connections) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		switch whole := bytes.HasSuffix(line, []byte("\n")); {
		case c.err != nil:
			return 0, c.err
		case len(c.line)+len(line) > maxLine:
			c.err = fmt.Errorf("line %.200q… is not an entry of /proc/net/tcp", append(c.line, line[:min(len(line), maxLine)]...))
		case whole:
			c.err = c.read(string(append(c.line, line...)))
			c.line = c.line[:0]
		default:
			c.line = append(c.line, line...)
		}
	}
	return len(p), c.err
}

// read reads a line of a table.
func (c *connections) read(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return nil
	}
	if fields[0] == "sl" {
		c.seen = true
		return nil
	}
	address, local, ok := strings.Cut(fields[1], ":")
	remote, _, okRemote := strings.Cut(fields[2], ":")
	number, err := strconv.ParseUint(local, 16, 16)
	if !ok || !okRemote || err != nil {
		return fmt.Errorf("line %.200q is not an entry of /proc/net/tcp", strings.TrimSpace(line))
	}
	if fields[3] == stateEstablished && int(number) == c.port && address != remote && !isPeer(remote, c.peers) {
		c.n++
	}
	return nil
}

// count returns the number of connections in the tables.
func (c *connections) count() (int, error) {
	if c.err == nil {
		c.err = c.read(string(c.line))
	}
	if c.err == nil && !c.seen {
		c.err = errors.New("the pod printed no table of connections")
	}
	return c.n, c.err
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

package idletimeout

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/idle"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// header4 and header6 are the first lines of /proc/net/tcp and /proc/net/tcp6.
const (
	header4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode" +
		"                                                     \n"
	header6 = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr" +
		" tm->when retrnsmt   uid  timeout inode\n"
	rest4 = " 00000000:00000000 00:00000000 00000000  1000        0 2613 1 0000000000000000 100 0 0 10 0\n"
)

// line4 returns a line of the table for a connection between addresses in the kernel's format.
func line4(local, remote, state string) string {
	return "   0: " + local + " " + remote + " " + state + rest4
}

// counted returns the connections to the port in the table, which comes in small pieces.
func counted(table string, port int) (int, error) {
	c := &connections{port: port}
	for piece := range slices.Chunk([]byte(table), 7) {
		_, _ = c.Write(piece) // client-go goes on after an error
	}
	return c.count()
}

func TestCountConnections(t *testing.T) {
	const listening, used, port5432 = "00000000:1538 00000000:0000 0A", "0100000A:1538 0200000A:C001 01", 5432
	line := func(text string) string { return "   0: " + text + rest4 }
	tables := map[string]string{
		"no connection":                           header4 + line(listening) + header6,
		"one connection":                          header4 + line(listening) + line(used),
		"two connections":                         header4 + line(used) + line("0100000A:1538 0300000A:C001 01"),
		"a connection to another port":            header4 + line4("0100000A:1539", "0200000A:C001", "01"),
		"a connection from that port to a server": header4 + line4("0100000A:C001", "0200000A:1538", "01"),
		"a connection that is being opened":       header4 + line4("0100000A:1538", "0200000A:C001", "03"),
		"a connection that has ended":             header4 + line4("0100000A:1538", "0200000A:C001", "06"),
		"a health check over the loopback":        header4 + line4("0100007F:1538", "0100007F:C001", "01"),
		"a health check over the pod's address":   header4 + line4("0100000A:1538", "0100000A:C001", "01"),
		"over IPv6": header4 + header6 + line4("000080FE000000000000000001000000:1538", "000080FE000000000000000002000000:C001",
			"01"),
		"over IPv6's loopback": header4 + header6 + line4("00000000000000000000000001000000:1538",
			"00000000000000000000000001000000:C001", "01"),
		"over IPv4, on a socket for both": header4 + header6 + line4("0000000000000000FFFF00000100000A:1538",
			"0000000000000000FFFF00000200000A:C001", "01"),
		"listening for both": header4 + header6 + line4("00000000000000000000000000000000:1538",
			"00000000000000000000000000000000:0000", "0A"),
		"in small letters":               header4 + line4("0100000a:c001", "0200000a:1538", "01"),
		"a kernel without IPv6":          header4 + line(used),
		"no table":                       "",
		"a line without end":             header4 + strings.Repeat("x", 1<<20),
		"the output of another command":  "cat: /proc/net/tcp: No such file or directory\n",
		"a truncated line":               header4 + "   0: 0100000A",
		"a port that is not hexadecimal": header4 + line4("0100000A:XXXX", "0200000A:C001", "01"),
		"a port too large":               header4 + line4("0100000A:11538", "0200000A:C001", "01"),
		"an address without a port":      header4 + line4("0100000A:1538", "0200000A", "01"),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		t.Run(name, func(t *testing.T) {
			n, err := counted(tables[name], port5432)
			result := fmt.Sprintf("%d connections", n)
			if err != nil {
				result = err.Error()
			}
			file.Entry(t, name, result)
		})
	}
}

// TestCountConnectionsReadsKernelTable: the table lists a connection over the loopback, which does not count.
func TestCountConnectionsReadsKernelTable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	response, err := http.Get(server.URL) // this machine
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := counted(string(table), 1); err != nil || n != 0 {
		t.Errorf("%d connections to port 1, %v", n, err)
	}
	var number int
	_, _ = fmt.Sscan(portOf(server.URL), &number)
	if n, err := counted(string(table), number); err != nil || n != 0 {
		t.Errorf("%d connections to the server, %v", n, err)
	}
	if want := fmt.Sprintf(":%04X ", number); !strings.Contains(string(table), want) {
		t.Errorf("the table has no %q: %s", want, table)
	}
}

func TestKernelAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F": "127.0.0.1", "0200000A": "10.0.0.2", "0000000000000000FFFF00000100000A": "10.0.0.1",
		"000080FE000000000000000001000000": "fe80::1", "0100": "", "X": "", "": "", "01000000FF": "",
	} {
		got, ok := kernelAddress(text)
		if address, err := netip.ParseAddr(want); ok != (err == nil) || ok && got != string(address.Unmap().AsSlice()) {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

// TestConnectionsWithinGroupDoNotCount: only the connection of a client is use.
func TestConnectionsWithinGroupDoNotCount(t *testing.T) {
	at := func(ip string, hostNetwork bool) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: ip}, {IP: "fd00::" + ip[strings.LastIndex(ip, ".")+1:]}}
			p.Spec.HostNetwork = hostNetwork
		})
	}
	db := member("db", shop, build.Replicas(2), probed)
	group := idle.Group{idle.MemberOf(db), idle.MemberOf(member("web", shop, build.Replicas(1)))}
	c := newCluster(t, podOf("db", 0, at("10.0.0.1", false)), podOf("db", 1, at("10.0.0.2", false)), podOf("web", 0, at("10.0.0.3", false)))
	from := func(remote string) string { return line4("0100000A:1538", remote+":C001", "01") }
	for name, row := range map[string]struct {
		table string
		want  string
	}{
		"a streaming replica":      {from("0200000A"), "idle"},
		"a pool of another member": {from("0300000A"), "idle"},
		"a replica on a socket for both": {
			line4("0000000000000000FFFF00000100000A:1538", "0000000000000000FFFF00000200000A:C001", "01"), "idle"},
		"a replica over IPv6": {line4("000000FD000000000000000001000000:1538", "000000FD000000000000000002000000:C001", "01"),
			"idle"},
		"a client":                              {from("0400000A"), "in use"},
		"a client beside replicas":              {from("0200000A") + from("0400000A"), "in use"},
		"an address that cannot be read counts": {from("XX00000A"), "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			c.printed = map[string]string{"db-0": header4 + row.table + header6, "db-1": header4 + header6}
			found := newProber(c.client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).askAll(t.Context(), group, group[:1])["db"]
			expectResult(t, result(found.Active, found.Err), row.want)
		})
	}
	t.Run("a pod on the host's network has the address of clients", func(t *testing.T) {
		c := newCluster(t, podOf("db", 0, at("10.0.0.1", true)))
		peers, err := newProber(c.client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).peerAddresses(t.Context(), group[:1], group[:1])
		if err != nil || len(peers) > 0 {
			t.Errorf("%v, %v", peers, err)
		}
	})
}

package idletimeout

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/probe"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// result renders the result of a probe.
func result(active bool, err error) string {
	switch {
	case err != nil && active:
		return "in use, and an error"
	case err != nil:
		return err.Error()
	case active:
		return "in use"
	}
	return "idle"
}

func expectResult(t *testing.T, got, want string) {
	t.Helper()
	if want == "idle" || want == "in use" {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	} else if !strings.Contains(got, want) || got == "in use, and an error" {
		t.Errorf("%s, want %q", got, want)
	}
}

// replica returns a running pod of set web at the address of this machine.
func replica(ordinal int, options ...build.Option) *corev1.Pod {
	address := build.Edit(func(p *corev1.Pod) {
		p.Status.PodIP = "127.0.0.1"
		p.Spec.Containers = []corev1.Container{{Name: "db"}}
		p.OwnerReferences[0].UID = "uid-web"
	})
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{address}, options...)...)
}

func ask(t *testing.T, c *cluster, settings api.Settings, text string, options ...build.Option) string {
	t.Helper()
	probe, err := probe.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	set := build.Set("web", append([]build.Option{build.Replicas(2)}, options...)...)
	m := idle.MemberOf(build.With(set, build.Annotation(api.ActivityProbeAnnotation, text)))
	m.Rules.Probe = probe
	answer := newProber(c.client(), settings, slog.New(slog.DiscardHandler)).askAll(t.Context(), idle.Group{m}, []idle.Member{m})["web"]
	return result(answer.Active, answer.Err)
}

// podOf returns a running pod of the set at the address of this machine.
func podOf(set string, ordinal int, options ...build.Option) *corev1.Pod {
	at := build.Edit(func(p *corev1.Pod) {
		p.Status.PodIP = "127.0.0.1"
		p.Spec.Containers = []corev1.Container{{Name: "db"}}
		p.OwnerReferences[0].UID = build.Set(set).UID
	})
	return build.With(build.PodOf(set, ordinal), append([]build.Option{at}, options...)...)
}

// probeServer starts a server for probes. It returns the port and the number of requests so far.
func probeServer(t *testing.T, answer http.HandlerFunc) (port string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return portOf(server.URL), asked
}

func portOf(url string) string { return url[strings.LastIndex(url, ":")+1:] }

// silent accepts the request and never answers, like a network policy that drops packets.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAskHTTP(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/used":
			if r.Method != http.MethodGet || r.URL.RawQuery != "since=1h" {
				w.WriteHeader(http.StatusTeapot)
			}
		case "/huge":
			_, _ = io.Copy(w, io.LimitReader(endless{}, 64<<20)) // more than the prober reads
		case "/idle":
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/slow":
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Second):
			}
		case "/gone":
			connection, _, _ := w.(http.Hijacker).Hijack()
			_ = connection.Close()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	closed := httptest.NewServer(nil)
	closed.Close()
	settings := build.SleepSettings()
	settings.ProbeTimeout = 500 * time.Millisecond
	c := newCluster(t, replica(0), replica(1))
	for path, want := range map[string]string{
		"/used?since=1h": "in use",
		"/idle":          "idle",
		"/moved":         "answered 302; 200 means in use, 204 idle",
		"/none":          "answered 404",
		"/gone":          "asking pod web-",
		"/slow":          "asking pod web-",
		"/huge":          "in use",
		"/%zz":           "asking pod web-",
	} {
		t.Run(path, func(t *testing.T) {
			begin := time.Now()
			expectResult(t, ask(t, c, settings, "http:"+portOf(server.URL)+path), want)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
	expectResult(t, ask(t, c, settings, "http:"+portOf(closed.URL)), "connection refused")
	if asked.Load() > 0 {
		t.Error("another server was asked")
	}
}

// TestAskHTTPSOfAHost asks an application that accepts only its own host name.
func TestAskHTTPSOfAHost(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example" || r.TLS.ServerName != "shop.example" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	at := portOf(server.URL)
	c := newCluster(t, replica(0), replica(1))
	expectResult(t, ask(t, c, build.SleepSettings(), "https:"+at+"/used host=shop.example"), "in use")
	expectResult(t, ask(t, c, build.SleepSettings(), "https:"+at+"/used"), "answered 400")
	expectResult(t, ask(t, c, build.SleepSettings(), "http:"+at+"/used host=shop.example"), "answered 400")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestOneActivePodIsEnough: a set is in use if one pod says so, and idle only if all pods say so.
func TestOneActivePodIsEnough(t *testing.T) {
	for _, row := range []struct {
		codes []int
		want  string
	}{
		{[]int{204, 204}, "idle"}, {[]int{204, 200}, "in use"}, {[]int{500, 200}, "in use"}, {[]int{204, 500}, "answered 500"},
	} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.codes[asked.Add(1)-1])
		}))
		expectResult(t, ask(t, newCluster(t, replica(0), replica(1)), build.SleepSettings(), "http:"+portOf(server.URL)), row.want)
		server.Close()
	}
}

// TestPodsThatCannotBeProbed: a set is not idle while the state of a pod is unknown.
func TestPodsThatCannotBeProbed(t *testing.T) {
	elsewhere := build.Edit(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "uid-2" })
	situations := map[string][]metav1.Object{
		"there are none":         nil,
		"one is missing":         []metav1.Object{replica(0)},
		"one too many":           []metav1.Object{replica(0), replica(1), replica(2)},
		"one is another set's":   []metav1.Object{replica(0), replica(1, elsewhere)},
		"one is not selected":    []metav1.Object{replica(0), replica(1, build.Label("app", "api"))},
		"one does not run":       []metav1.Object{replica(0), replica(1, build.InPhase(corev1.PodPending))},
		"none runs":              []metav1.Object{replica(0, build.InPhase(corev1.PodPending)), replica(1, build.InPhase(corev1.PodFailed))},
		"one has no address yet": []metav1.Object{replica(0), replica(1, build.Edit(func(p *corev1.Pod) { p.Status.PodIP = "" }))},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, ask(t, newCluster(t, situations[name]...), build.SleepSettings(), "http:1"))
		})
	}
	c := newCluster(t)
	c.down = "pods"
	expectResult(t, ask(t, c, build.SleepSettings(), "tcp:1"), "listing pods")
	expectResult(t, ask(t, c, build.SleepSettings(), "tcp:1", build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	})), "selector of StatefulSet shop/web")
}

// TestSlowPodsAreProbedConcurrently: one after another they would take two seconds.
func TestSlowPodsAreProbedConcurrently(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	})
	var pods []metav1.Object
	for i := range 20 {
		pods = append(pods, replica(i))
	}
	settings := build.SleepSettings()
	settings.ProbeTimeout = 1500 * time.Millisecond
	expectResult(t, ask(t, newCluster(t, pods...), settings, "http:"+port, build.Replicas(20)), "idle")
	if asked.Load() != 20 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// TestProbesLeaveTimeForWrites checks the time that an event leaves for probes.
func TestProbesLeaveTimeForWrites(t *testing.T) {
	p := newProber(nil, api.Settings{ProbeTimeout: 5 * time.Second}, slog.New(slog.DiscardHandler))
	for left, want := range map[time.Duration]time.Duration{25 * time.Second: 5 * time.Second, 12 * time.Second: 2 * time.Second,
		9 * time.Second: -time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		if got := p.probeTime(ctx); got > want || got < want-time.Second {
			t.Errorf("of %s the probes may take %s, want %s", left, got, want)
		}
		cancel()
	}
}

func TestProbesPerEventAreLimited(t *testing.T) {
	port, asked := probeServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	var pods []metav1.Object
	var group idle.Group
	for i := range maxProbes + 1 {
		name := fmt.Sprintf("s%02d", i)
		pods = append(pods, podOf(name, 0))
		group = append(group, idle.MemberOf(member(name, build.Replicas(1), build.Annotation(api.ActivityProbeAnnotation, "http:"+port))))
	}
	found := newProber(newCluster(t, pods...).client(), build.SleepSettings(), slog.New(slog.DiscardHandler)).askAll(t.Context(), group, group)
	if got := found["s50"]; got.Err == nil || !strings.Contains(got.Err.Error(), "more than 50 sets") {
		t.Errorf("%+v", got)
	}
	if got := found["s49"]; got.Err != nil || got.Active || asked.Load() != maxProbes {
		t.Errorf("%+v, asked %d times", got, asked.Load())
	}
}

func TestAskTCP(t *testing.T) {
	c := newCluster(t, replica(0), replica(1))
	used := header4 + line4("0100000A:1538", "0200000A:C001", "01") + header6
	for name, row := range map[string]struct {
		printed map[string]string
		want    string
	}{
		"no connection":            {map[string]string{"web-0": header4, "web-1": header4 + header6}, "idle"},
		"one pod has a connection": {map[string]string{"web-0": header4, "web-1": used}, "in use"},
		"only the first pod answers, and it has a connection":  {map[string]string{"web-0": used}, "in use"},
		"only the second pod answers, and it has a connection": {map[string]string{"web-1": used}, "in use"},
		"only the second pod answers, without a connection":    {map[string]string{"web-1": header4}, "reading the connections of pod web-0: "},
		"the first pod answers nonsense": {map[string]string{"web-0": "a b c d", "web-1": header4},
			"reading the connections of pod web-0: "},
		"only the first pod answers, without a connection": {map[string]string{"web-0": header4}, "reading the connections of pod web-1: "},
	} {
		t.Run(name, func(t *testing.T) {
			c.printed = row.printed
			expectResult(t, ask(t, c, build.SleepSettings(), "tcp:5432"), row.want)
		})
	}
}

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

const vector = `{"status":"success","data":{"resultType":"vector","result":[%s]}}`

func TestAskPrometheus(t *testing.T) {
	answers := map[string]struct {
		code int
		body string
	}{
		"a value above zero":        {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"3"]}`)},
		"zero":                      {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"0"]}`)},
		"below zero":                {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"-1"]}`)},
		"a little":                  {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"1e-9"]}`)},
		"without end":               {200, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"+Inf"]}`)},
		"one of several":            {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"0"]},{"metric":{},"value":[1,"1"]}`)},
		"none of several":           {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"0"]},{"metric":{},"value":[1,"0"]}`)},
		"no number":                 {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"NaN"]}`)},
		"no number beside one":      {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"1"]},{"metric":{},"value":[1,"NaN"]}`)},
		"a word":                    {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,"many"]}`)},
		"a number that is no text":  {200, fmt.Sprintf(vector, `{"metric":{},"value":[1,1]}`)},
		"no value":                  {200, fmt.Sprintf(vector, `{"metric":{},"histogram":[1,{}]}`)},
		"nothing":                   {200, fmt.Sprintf(vector, ``)},
		"null":                      {200, `{"status":"success","data":{"resultType":"vector","result":null}}`},
		"a vector that is none":     {200, `{"status":"success","data":{"resultType":"vector","result":{}}}`},
		"a scalar":                  {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`},
		"a scalar that is zero":     {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`},
		"a scalar that is none":     {200, `{"status":"success","data":{"resultType":"scalar","result":{}}}`},
		"a scalar without a value":  {200, `{"status":"success","data":{"resultType":"scalar","result":[]}}`},
		"a range":                   {200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`},
		"no data":                   {200, `{"status":"success"}`},
		"a query that is wrong":     {400, `{"status":"error","errorType":"bad_data","error":"parse error: unclosed brace"}`},
		"an error, in spite of 200": {200, `{"status":"error","error":"no"}`},
		"it is overloaded":          {503, `no upstream`},
		"a success of another code": {202, fmt.Sprintf(vector, `{"metric":{},"value":[1.5,"3"]}`)},
		"a page":                    {200, `<html>sign in</html>`},
		"a redirect":                {302, ``},
		"nothing at all":            {200, ``},
		"the answer is too long": {
			200, fmt.Sprintf(vector, strings.Repeat(`{"metric":{},"value":[1,"0"]},`, 100_000)+`{"metric":{},"value":[1,"1"]}`)},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		row := answers[name]
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/prom/api/v1/query" || r.Method != http.MethodPost || r.FormValue("query") != `sum(x{a="b"}) > 0 & 1` {
					t.Errorf("asked for %s %s: %q", r.Method, r.URL, r.FormValue("query"))
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(row.code)
				_, _ = io.WriteString(w, row.body)
			}))
			t.Cleanup(server.Close)
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL+"/prom/", []string{"*"}
			file.Entry(t, name, ask(t, newCluster(t), settings, `prometheus:sum(x{a="b"}) > 0 & 1`))
		})
	}
}

func TestUnreachablePrometheus(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("query") == "body" {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
		}
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
	}))
	t.Cleanup(slow.Close)
	servers := map[string]struct{ url, query string }{
		"no Prometheus is configured":    {"", "x"},
		"nothing listens at the URL":     {"http://127.0.0.1:1", "x"},
		"an invalid URL":                 {"http://a b", "x"},
		"an unknown scheme":              {"prometheus:9090", "x"},
		"the probe fails":                {slow.URL, "x"},
		"the answer stops in the middle": {slow.URL, "body"},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		row := servers[name]
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.ProbeTimeout, settings.PromNamespaces = row.url, 300*time.Millisecond, []string{build.Namespace}
			begin := time.Now()
			file.Entry(t, name, ask(t, newCluster(t), settings, "prometheus:"+row.query))
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// secret stands for another tenant's data in an answer of Prometheus.
const secret = "payroll"

// TestPrometheusAnswerIsNotQuoted: the author of the query must not read data of other tenants in an error.
func TestPrometheusAnswerIsNotQuoted(t *testing.T) {
	for name, row := range map[string]struct {
		code int
		body string
	}{
		"an error":  {422, `{"status":"error","error":"found duplicate series [{namespace=\"payroll\"}]"}`},
		"a warning": {200, `{"status":"success","warnings":["payroll"],"data":{"resultType":"scalar","result":[1,"1"]}}`},
		"a kind":    {200, `{"status":"success","data":{"resultType":"payroll","result":[]}}`},
		"a vector":  {200, `{"status":"success","data":{"resultType":"vector","result":"payroll"}}`},
		"a value":   {200, `{"status":"success","data":{"resultType":"scalar","result":[1,"payroll"]}}`},
		"a page":    {200, `payroll`},
		"a thousand rows": {200, `{"status":"success","data":{"resultType":"vector","result":[` + strings.Repeat(`{"value":[1,"1"]},`, 100) +
			`{"value":[1,"payroll"]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			active, err := anyAboveZero(row.code, []byte(row.body))
			if err == nil || active || strings.Contains(err.Error(), secret) {
				t.Errorf("%v, %v", active, err)
			}
		})
	}
}

// TestPrometheusKeepsTenantsApart: the administrator lists a namespace, or the URL contains the namespace.
func TestPrometheusKeepsTenantsApart(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = r
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	t.Cleanup(server.Close)
	for name, row := range map[string]struct {
		path       string
		namespaces []string
		want       string
		asked      string
	}{
		"no namespace is allowed":             {"", nil, "sets of namespace shop may not query Prometheus", ""},
		"only another namespace is allowed":   {"", []string{"payroll"}, "sets of namespace shop may not query Prometheus", ""},
		"the namespace is allowed":            {"", []string{"payroll", "shop"}, "in use", "/api/v1/query"},
		"every namespace is allowed":          {"", []string{"*"}, "in use", "/api/v1/query"},
		"the namespace is a part of the path": {"/tenants/{namespace}/", nil, "in use", "/tenants/shop/api/v1/query"},
		"the namespace is a query parameter":  {"/?namespace={namespace}&dedup=true", nil, "in use", "/api/v1/query?namespace=shop&dedup=true"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL+row.path, row.namespaces
			got = nil
			expectResult(t, ask(t, newCluster(t), settings, "prometheus:up"), row.want)
			switch {
			case row.asked == "" && got != nil:
				t.Errorf("asked for %s", got.URL)
			case row.asked != "" && (got == nil || got.URL.String() != row.asked):
				t.Errorf("asked for %+v, want %s", got, row.asked)
			case got != nil && (got.PostForm.Get("limit") != "101" || !strings.HasSuffix(got.PostForm.Get("timeout"), "ms")):
				t.Errorf("the query has no bounds: %v", got.PostForm)
			}
		})
	}
}

// TestPrometheusOverTLS uses a token and a certificate authority from files.
func TestPrometheusOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	token := write("token", []byte("t0ken\n"))
	authority := write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	nonsense := write("nonsense.pem", []byte("x"))
	for name, row := range map[string]struct{ token, ca, want string }{
		"the right token and authority":         {token, authority, "in use"},
		"no token":                              {"", authority, "prometheus answers 401"},
		"the authority is not configured":       {token, "", "prometheus did not answer"},
		"the authority file has no certificate": {token, nonsense, "prometheus cannot be queried"},
		"the token file does not exist":         {filepath.Join(folder, "none"), authority, "prometheus cannot be queried"},
		"the authority file does not exist":     {token, filepath.Join(folder, "none"), "prometheus cannot be queried"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := build.SleepSettings()
			settings.Prometheus, settings.PromNamespaces = server.URL, []string{"*"}
			settings.PromTokenFile, settings.PromCAFile = row.token, row.ca
			expectResult(t, ask(t, newCluster(t), settings, "prometheus:up"), row.want)
		})
	}
}

//go:build cluster

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"

	"drydock.dev/test/kit"
)

// hostileNode is the machine of the namespace, and a Prometheus. Its kubelet reports the summary and prints 16 MiB for each command in a
// pod.
type hostileNode struct {
	summary                   atomic.Value
	execs, summaries, queries atomic.Int64
	prometheus                *httptest.Server
}

// startHostileNode answers for the kubelet of the world's machine.
func startHostileNode(w *kit.World) *hostileNode {
	w.T.Helper()
	n := &hostileNode{}
	n.summary.Store("{}")
	kubelet := httptest.NewTLSServer(n)
	w.T.Cleanup(kubelet.Close)
	n.prometheus = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		n.queries.Add(1)
		_, _ = io.WriteString(rw, `{"status":"success","data":{"resultType":"vector","result":[`+nulls(4<<20-100)+`]}}`)
	}))
	w.T.Cleanup(n.prometheus.Close)
	host, port, _ := net.SplitHostPort(kubelet.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`,
		host, number)
	if _, err := w.Kube.CoreV1().Nodes().Patch(context.Background(), "machine-of-"+w.Namespace, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// ServeHTTP is the kubelet.
func (n *hostileNode) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/exec/") {
		n.execs.Add(1)
		printMuch(rw, r)
		return
	}
	n.summaries.Add(1)
	_, _ = io.WriteString(rw, n.summary.Load().(string))
}

// printMuch answers a command with 16 MiB of established connections, as the kubelet does (kubernetes
// staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand).
func printMuch(rw http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, rw, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 3)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(rw, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	streams := map[string]httpstream.Stream{}
	for range 3 { // error, stdout, stderr
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-time.After(time.Minute):
			return
		}
	}
	line := "   0: 00000000:1538 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 1\n"
	out := streams[corev1.StreamTypeStdout]
	_, _ = io.WriteString(out, "  sl  local_address rem_address   st\n")
	for block, sent := bytes.Repeat([]byte(line), 300), 0; sent < 16<<20; sent += len(block) {
		if _, err := out.Write(block); err != nil {
			break
		}
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(metav1.Status{Status: metav1.StatusSuccess})
}

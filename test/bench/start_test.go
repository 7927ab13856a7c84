// Package bench measures the time and memory of a cold start. docs/benchmarks.md has the figures and their meaning.
package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/serve"
	"drydock.dev/test/kit"
)

// BenchmarkColdStart measures the time from the start of a `drydock serve` process to its first answered event, and its memory then, with
// and without telemetry.
func BenchmarkColdStart(b *testing.B) {
	binary := filepath.Join(kit.Root(b), "bin", "drydock")
	info, err := os.Stat(binary)
	if err != nil {
		b.Fatalf("%v. Build it with: make build", err)
	}
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(unreachable), 0o600); err != nil {
		b.Fatal(err)
	}
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	for name, variables := range map[string][]string{
		"tracing=off": nil,
		"tracing=on":  {"OTEL_TRACES_EXPORTER=otlp", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL},
	} {
		b.Run(name, func(b *testing.B) {
			var resident int
			for b.Loop() {
				resident = coldStart(b, binary, append(variables, "KUBECONFIG="+kubeconfig))
			}
			b.ReportMetric(float64(resident)/1024, "MiB-RSS")
			b.ReportMetric(float64(info.Size())/(1<<20), "MiB-binary")
		})
	}
}

// unreachable is a kubeconfig without an API server: sift judges an event without it.
const unreachable = `{"apiVersion":"v1","kind":"Config","current-context":"x",` +
	`"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],` +
	`"contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],"users":[{"name":"x","user":{"token":"x"}}]}`

// coldStart starts the process, waits for the first answered event, and returns the resident memory in KiB.
func coldStart(b *testing.B, binary string, variables []string) int {
	port := freePort(b)
	command := exec.Command(binary, "serve", "sift")
	command.Env = append(append(os.Environ(), "K_SINK=http://127.0.0.1:1", fmt.Sprintf("PORT=%d", port)), variables...)
	command.Stdout = io.Discard
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	send := serve.NewSender(fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	for start := time.Now(); ; {
		if err := send.Send(context.Background(), irrelevant()); err == nil {
			return residentKiB(b, command.Process.Pid)
		} else if time.Since(start) > 10*time.Second {
			b.Fatal(err)
		}
		<-time.After(500 * time.Microsecond)
	}
}

// irrelevant returns an event that wakes no function.
func irrelevant() event.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("bench")
	e.SetType("dev.knative.apiserver.resource.update")
	e.SetExtension("kind", "ConfigMap")
	return e
}

// freePort returns a free TCP port of the loopback address.
func freePort(b *testing.B) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// residentKiB returns the resident memory of the process.
func residentKiB(b *testing.B, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return kib
}

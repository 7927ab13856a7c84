//go:build cluster

package api

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
)

// TestSweepOfLargeSetsStaysWithinMemory runs sift as a separate process, like a deployment. Its memory limit is 128
// MiB. A sweep beyond it is killed, and so is every later sweep.
func TestSweepOfLargeSetsStaysWithinMemory(t *testing.T) {
	const (
		sets  = 300
		large = 250 << 10 // the limit for all annotations of an object is 256 KiB
	)
	w := kit.NewWorld(t)
	texts := []map[string]string{
		{"example.com/notes": strings.Repeat("x", large)},
		{api.SleepAnnotation: claimsBomb(large)},
		{api.StatusAnnotation: claimsBomb(large)},
		{api.ResizeAnnotation: strings.Repeat("a=1Gi,", large/6)},
		{api.DependsOnAnnotation: strings.Repeat("web,", large/4)},
	}
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		set := build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"),
			build.Label(api.GroupLabel, "shop"))
		set.Annotations = texts[i%len(texts)]
		return set
	})
	expectSweeps(t, w, sets)
}

// TestSweepOfSetsWithLargeTemplatesStaysWithinMemory: annotations have a limit. All other fields are bounded only by
// the API server's limit of an object.
func TestSweepOfSetsWithLargeTemplatesStaysWithinMemory(t *testing.T) {
	const (
		sets  = 60 // more than a page
		large = 1200 << 10
	)
	w := kit.NewWorld(t)
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		set := build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"))
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NOTES", Value: strings.Repeat("x", large)}}
		return set
	})
	expectSweeps(t, w, sets)
}

// TestConcurrentTicksStayWithinMemory: if Knative authenticates no sender, every pod can send ticks.
func TestConcurrentTicksStayWithinMemory(t *testing.T) {
	const (
		ticks = 20 // Knative gives a pod that many events at once
		sets  = 100
		large = 200 << 10
	)
	w := kit.NewWorld(t)
	createSets(w, sets, func(i int) *appsv1.StatefulSet {
		return build.Set(fmt.Sprintf("web-%d", i), build.Replicas(0), build.Template("data", "64Mi", "fixed"),
			build.Annotation("example.com/notes", strings.Repeat("x", large)))
	})
	address, process, output := startSift(t, w)
	sendTick(t, address, "first", output)
	var all sync.WaitGroup
	for n := range ticks {
		all.Go(func() { sendTick(t, address, fmt.Sprint(n), output) })
	}
	all.Wait()
	expectMemory(t, process, fmt.Sprintf("%d ticks at once", ticks))
}

// startSift starts sift for the world's namespace.
func startSift(t *testing.T, w *kit.World) (address string, process int, output *bytes.Buffer) {
	t.Helper()
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(sink.Close)
	return startFunction(t, "sift", "K_SINK="+sink.URL, "DRYDOCK_NAMESPACES="+w.Namespace)
}

func expectSweeps(t *testing.T, w *kit.World, sets int) {
	t.Helper()
	address, process, output := startSift(t, w)
	for n := range 3 {
		sendTick(t, address, fmt.Sprint(n), output)
	}
	expectMemory(t, process, fmt.Sprintf("three sweeps of %d sets", sets))
}

// claimsBomb returns a record of the size that becomes much larger when it is decoded.
func claimsBomb(size int) string {
	const head = `{"version":2,"operation":"0123456789ab","kind":"Sleep","phase":"Asleep","set":{"name":"web"},"claims":[{}`
	return head + strings.Repeat(",{}", (size-len(head))/3) + "]}"
}

func createSets(w *kit.World, count int, make func(i int) *appsv1.StatefulSet) {
	w.T.Helper()
	failed := newResults(count)
	for i := range count {
		go func() {
			set := make(i)
			set.Namespace, set.ResourceVersion, set.UID = w.Namespace, "", ""
			_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			w.T.Fatalf("creating the sets: %v", err)
		}
	}
}

func newResults(count int) chan error { return make(chan error, count) }

// startFunction builds and starts a function like a deployment, and returns its address, process id and output.
func startFunction(t *testing.T, name string, variables ...string) (address string, process int, output *bytes.Buffer) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "drydock")
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/drydock")
	compile.Dir = kit.Root(t)
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building drydock: %v: %s", err, said)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	command := exec.CommandContext(t.Context(), binary, "serve", name)
	command.Env = append(append(os.Environ(), "PORT="+port, "KUBECONFIG="+kit.APIPath(t), "GOMEMLIMIT=110MiB"), variables...)
	output = &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return "http://127.0.0.1:" + port + "/", command.Process.Pid, output
}

// sendTick sends a tick until the process accepts it.
func sendTick(t *testing.T, address, id string, output *bytes.Buffer) {
	t.Helper()
	tick := event.New()
	tick.SetID(id)
	tick.SetSource("test")
	tick.SetType(events.Tick)
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if err = serve.NewSender(address, nil).Send(t.Context(), tick); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("sift does not answer: %v: %s", err, output)
}

// functionMemory is the memory limit of a deployed function.
const functionMemory = 128 << 20

func expectMemory(t *testing.T, process int, what string) {
	t.Helper()
	peak := peakMemory(t, process)
	t.Logf("%s took %d MiB", what, peak>>20)
	if peak > functionMemory {
		t.Errorf("the limit is %d MiB", functionMemory>>20)
	}
}

// peakMemory returns the highest resident memory of the process in bytes.
func peakMemory(t *testing.T, process int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kibibytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}

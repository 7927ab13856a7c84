//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
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
	sift := startSift(t, w)
	sift.Tick(t, "first")
	var all sync.WaitGroup
	for n := range ticks {
		all.Go(func() { sift.Tick(t, fmt.Sprint(n)) })
	}
	all.Wait()
	expectMemory(t, sift, fmt.Sprintf("%d ticks at once", ticks))
}

// startSift starts sift for the world's namespace.
func startSift(t *testing.T, w *kit.World) *kit.Program {
	t.Helper()
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(sink.Close)
	return kit.StartFunction(t, "sift", kit.APIPath(t), "K_SINK="+sink.URL, "DRYDOCK_NAMESPACES="+w.Namespace)
}

func expectSweeps(t *testing.T, w *kit.World, sets int) {
	t.Helper()
	sift := startSift(t, w)
	for n := range 3 {
		sift.Tick(t, fmt.Sprint(n))
	}
	expectMemory(t, sift, fmt.Sprintf("three sweeps of %d sets", sets))
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

func expectMemory(t *testing.T, f *kit.Program, what string) {
	t.Helper()
	t.Logf("%s took %d MiB", what, f.PeakMemory(t)>>20)
	if excess := f.Excess(t); excess != "" {
		t.Error(excess)
	}
}

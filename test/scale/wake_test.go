//go:build cluster

package scale

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// BenchmarkWake measures the time from a request to wake a sleeping set until a watch reports that its pods are asked back. The request
// is the annotation that a user or the gateway writes. An iteration is a pair: a bare controller does the same for a set that Drydock does
// not manage. It reads nothing, and writes the replicas when its watch reports the annotation.
func BenchmarkWake(b *testing.B) {
	w := kit.NewWorld(b)
	bare := kit.WorldSet("bare", 1, "64Mi", "data")
	delete(bare.Labels, api.ManagedLabel)
	w.CreateSet(bare)
	onUpdate(b, w, func(_, set *appsv1.StatefulSet) {
		if set.Name == "bare" && *set.Spec.Replicas == 0 && set.Annotations[api.AwakeUntilAnnotation] != "" {
			_, _ = w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), set.Name, types.MergePatchType,
				[]byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		}
	})
	started := make(chan time.Time, 1)
	onUpdate(b, w, func(before, set *appsv1.StatefulSet) {
		if *before.Spec.Replicas == 0 && *set.Spec.Replicas > 0 {
			started <- time.Now()
		}
	})
	startEngine(b, kit.APIPath(b), []string{w.Namespace})
	var bareMs, wakeMs, addedMs []float64
	for b.Loop() {
		// A new set falls asleep at once. A set that has just woken up stays awake for its timeout.
		set := kit.WorldSet(fmt.Sprintf("web-%d", len(wakeMs)), 1, "64Mi", "data")
		set.Annotations[api.IdleTimeoutAnnotation], set.Annotations[api.LastActivityAnnotation] = "10s", kit.Ago(time.Hour)
		w.CreateSet(set)
		w.PatchSet("bare", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"replicas":0}}`, api.AwakeUntilAnnotation))
		awaitSet(w, set.Name, isAsleep)
		<-time.After(time.Second) // the functions are done
		bareMs = append(bareMs, timeToStart(w, "bare", started))
		wakeMs = append(wakeMs, timeToStart(w, set.Name, started))
		addedMs = append(addedMs, wakeMs[len(wakeMs)-1]-bareMs[len(bareMs)-1])
		awaitSet(w, set.Name, isAwake)
	}
	b.Logf("bare controller, in ms: %.0f; Drydock: %.0f", bareMs, wakeMs)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(bareMs), "bare-ms")
	b.ReportMetric(median(wakeMs), "wake-ms")
	b.ReportMetric(median(addedMs), "added-ms")
}

// timeToStart requests the set's pods, and returns how long it takes until they are asked back, in milliseconds.
func timeToStart(w *kit.World, set string, started <-chan time.Time) float64 {
	began := time.Now()
	w.Annotate(set, map[string]string{api.AwakeUntilAnnotation: kit.Ago(-time.Hour)})
	return float64((<-started).Sub(began).Microseconds()) / 1000
}

// onUpdate calls handle for each change of a set of the world.
func onUpdate(b *testing.B, w *kit.World, handle func(before, now *appsv1.StatefulSet)) {
	b.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(w.Kube, 0, informers.WithNamespace(w.Namespace))
	if _, err := factory.Apps().V1().StatefulSets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) { handle(before.(*appsv1.StatefulSet), now.(*appsv1.StatefulSet)) }}); err != nil {
		b.Fatal(err)
	}
	factory.Start(b.Context().Done())
	factory.WaitForCacheSync(b.Context().Done())
}

// awaitSet waits until the set is done.
func awaitSet(w *kit.World, name string, isDone func(*appsv1.StatefulSet) (bool, error)) {
	w.T.Helper()
	w.Eventually("StatefulSet "+name+" is done", func() string {
		switch done, err := isDone(w.Set(name)); {
		case err != nil:
			return err.Error()
		case !done:
			return "it is not"
		}
		return ""
	})
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

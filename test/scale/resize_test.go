//go:build cluster

package scale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/proxy"
)

// BenchmarkResizes measures a thousand resizes by copy that are requested at once, as by a commit to a GitOps repository. Half of them
// belong to one namespace. DRYDOCK_BENCH_RESIZES changes their number.
func BenchmarkResizes(b *testing.B) {
	count := countFromEnv(b, "DRYDOCK_BENCH_RESIZES", 1000)
	const limit = 20
	for b.Loop() {
		f := newFleet(b, count)
		between := proxy.Start(b, kit.APIConfig(b))
		movers := watchMovers(b, f.client)
		engine := startEngine(b, between.Kubeconfig, f.names(), fmt.Sprintf("DRYDOCK_MOVERS=%d", limit))
		began := time.Now()
		f.annotate(b, map[string]string{api.ResizeAnnotation: "data=128Mi"})
		ends := f.await(b, resized)
		others := func(p placed) bool { return p.world > 0 }
		b.ReportMetric(time.Since(began).Seconds(), "s")
		b.ReportMetric(float64(movers.most()), "movers-peak")
		b.ReportMetric(float64(last(ends, others).Sub(began))/float64(last(ends, all).Sub(began)), "others-done-at")
		b.ReportMetric(float64(peakRate(between.Requests())), "requests/s-peak")
		b.ReportMetric(float64(len(between.Requests()))/float64(count), "requests/resize")
		b.ReportMetric(float64(engine.PeakMemory(b))/(1<<20), "MiB-peak")
		logRequests(b, between.Requests(), count)
		if most := movers.most(); most == 0 || most > limit {
			b.Errorf("%d movers at once, the limit is %d", most, limit)
		}
	}
}

// resized reports whether the resize has succeeded. Any other end is an error.
func resized(set *appsv1.StatefulSet) (bool, error) {
	record, err := api.LoadResize(set)
	if err != nil || record == nil {
		return false, err
	}
	if record.Phase.Terminal() && record.Phase != api.Succeeded {
		return false, fmt.Errorf("%s: %s", record.Phase, record.Message)
	}
	return record.Phase == api.Succeeded, nil
}

// moverCount counts the movers that exist at once.
type moverCount struct {
	mu      sync.Mutex
	running map[string]bool
	peak    int
}

// watchMovers counts until the test ends.
func watchMovers(b *testing.B, client kubernetes.Interface) *moverCount {
	b.Helper()
	m := &moverCount{running: map[string]bool{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	note := func(o any) {
		job := o.(*batchv1.Job)
		if strings.HasPrefix(job.Namespace, "world-") && job.Labels[api.OperationLabel] != "" {
			m.set(job.Namespace+"/"+job.Name, job.DeletionTimestamp == nil && job.Status.CompletionTime == nil)
		}
	}
	gone := func(o any) {
		if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = unknown.Obj
		}
		m.set(o.(*batchv1.Job).Namespace+"/"+o.(*batchv1.Job).Name, false)
	}
	if _, err := factory.Batch().V1().Jobs().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, o any) { note(o) }, DeleteFunc: gone}); err != nil {
		b.Fatal(err)
	}
	factory.Start(b.Context().Done())
	factory.WaitForCacheSync(b.Context().Done())
	return m
}

func (m *moverCount) set(name string, runs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !runs {
		delete(m.running, name)
		return
	}
	m.running[name] = true
	m.peak = max(m.peak, len(m.running))
}

func (m *moverCount) most() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak
}

// logRequests prints how many requests of each kind the functions sent for a set.
func logRequests(b *testing.B, all []proxy.Request, sets int) {
	b.Helper()
	kinds := map[string]int{}
	for _, r := range all {
		function := r.User[strings.LastIndex(r.User, ":")+1:]
		kinds[strings.Join([]string{function, r.Method, pluralIn(r.Path)}, " ")]++
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		b.Logf("%6.1f %s", float64(kinds[kind])/float64(sets), kind)
	}
}

// pluralIn returns the resource in the path of a request.
func pluralIn(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		return parts[i+2]
	}
	if parts[0] == "apis" {
		parts = parts[1:] // the group
	}
	return parts[min(2, len(parts)-1)]
}

//go:build cluster

package scale

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/proxy"
)

// BenchmarkSweep measures one sweep of sift over the population, in which nothing is to do.
func BenchmarkSweep(b *testing.B) {
	config := populate(b)
	var woken atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		woken.Add(1)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer sink.Close()
	between := proxy.Start(b, config)
	sift := kit.StartFunction(b, "sift", between.Kubeconfig, "K_SINK="+sink.URL)
	sift.Tick(b, "first") // the connections and the program are warm from here on
	between.Reset()
	woken.Store(0)
	cpu, n := sift.CPU(b), 0
	for b.Loop() {
		n++
		sift.Tick(b, fmt.Sprint(n))
	}
	perSweep := func(total float64) float64 { return total / float64(n) }
	b.ReportMetric(perSweep((sift.CPU(b) - cpu).Seconds()), "CPU-s/sweep")
	b.ReportMetric(perSweep(float64(between.Count(proxy.Request.IsList))), "lists/sweep")
	b.ReportMetric(perSweep(float64(len(between.Requests()))), "requests/sweep")
	b.ReportMetric(perSweep(float64(woken.Load())), "events/sweep")
	b.ReportMetric(float64(sift.PeakMemory(b))/(1<<20), "MiB-peak")
}

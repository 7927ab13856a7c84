//go:build cluster

package scale

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/proxy"
)

// BenchmarkNight measures how two thousand sets fall asleep when the window of all of them closes, and wake up when the next one opens.
// DRYDOCK_BENCH_SLEEPS changes their number.
func BenchmarkNight(b *testing.B) {
	count := countFromEnv(b, "DRYDOCK_BENCH_SLEEPS", 2000)
	for b.Loop() {
		f := newFleet(b, count)
		between := proxy.Start(b, kit.APIConfig(b))
		engine := startEngine(b, between.Kubeconfig, f.names())
		evening := nextMinute(time.Minute)
		f.annotate(b, map[string]string{api.IdleTimeoutAnnotation: "10s", api.LastActivityAnnotation: kit.Ago(time.Hour),
			api.KeepWarmAnnotation: window(evening.Add(-12*time.Hour), evening)})
		asleep := last(f.await(b, isAsleep), all)
		report(b, between, "asleep", asleep.Sub(evening), count)
		between.Reset()
		// All sets get the same morning now, because the night is longer than the benchmark.
		morning := nextMinute(time.Minute)
		f.annotate(b, map[string]string{api.KeepWarmAnnotation: window(morning, morning.Add(12*time.Hour))})
		awake := last(f.await(b, isAwake), all)
		report(b, between, "awake", awake.Sub(morning), count)
		b.ReportMetric(float64(engine.PeakMemory(b))/(1<<20), "MiB-peak")
	}
}

// nextMinute returns the first full minute in UTC that is at least so far away.
func nextMinute(away time.Duration) time.Time {
	return time.Now().UTC().Add(away + time.Minute).Truncate(time.Minute)
}

// window returns a daily window in UTC.
func window(from, to time.Time) string {
	return fmt.Sprintf("Daily %s-%s", from.Format("15:04"), to.Format("15:04"))
}

func isAsleep(set *appsv1.StatefulSet) (bool, error) {
	sleep, err := api.LoadSleep(set)
	if err == nil && sleep != nil && (sleep.Phase == api.Failed || sleep.Phase == api.Refused) {
		err = fmt.Errorf("%s: %s", sleep.Phase, sleep.Message)
	}
	return sleep != nil && sleep.Phase == api.Asleep && set.Status.Replicas == 0, err
}

func isAwake(set *appsv1.StatefulSet) (bool, error) {
	sleep, err := api.LoadSleep(set)
	return sleep != nil && sleep.Phase == api.Succeeded && set.Status.ReadyReplicas == *set.Spec.Replicas, err
}

// report reports how long the way took, and its requests.
func report(b *testing.B, between *proxy.Proxy, way string, took time.Duration, count int) {
	b.Helper()
	requests := between.Requests()
	b.ReportMetric(took.Seconds(), way+"-s")
	b.ReportMetric(float64(peakRate(requests)), way+"-requests/s-peak")
	b.ReportMetric(float64(len(requests))/float64(count), way+"-requests/set")
}

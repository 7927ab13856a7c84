//go:build cluster

package knative

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit/stage"
)

// BenchmarkResize measures the time from the request to the end of a resize that finds every function at zero. Compare
// it with the benchmark of the same name and workload in test/e2e, where the standalone engine already runs.
func BenchmarkResize(b *testing.B) {
	k := setUp(b)
	k.CreateSet(stage.Workload("64Mi"))
	var all time.Duration
	size := 160
	for b.Loop() {
		k.awaitRest(b)
		all += k.Resize(b, fmt.Sprintf("data=%dMi", size))
		size += 32
	}
	b.ReportMetric(all.Seconds()/float64(b.N), "s-resize")
}

// quiet is how long BenchmarkQuiet observes.
const quiet = 10 * time.Minute

// BenchmarkQuiet observes a managed set without events, and measures how much of the time each function has a pod.
func BenchmarkQuiet(b *testing.B) {
	k := setUp(b)
	k.CreateSet(stage.Workload("64Mi"))
	k.AwaitReady(b)
	for b.Loop() {
		k.awaitRest(b)
		start := time.Now()
		<-time.After(quiet)
		running := map[string]time.Duration{}
		for _, p := range k.functions.sorted() {
			if p.from.After(start) {
				running[p.function] += p.until.Sub(p.from)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(running)) {
			b.ReportMetric(running[name].Minutes()/quiet.Minutes(), name+"-pods")
		}
	}
}

// BenchmarkColdStart measures the time from an event to a function at zero until the response. Serving's activator, the
// scheduler, the kubelet and the container runtime are part of it. It also measures the memory of the function.
func BenchmarkColdStart(b *testing.B) {
	k := setUp(b)
	ingress, err := k.Kube.CoreV1().Services("knative-ingress").Get(context.Background(), "private", metav1.GetOptions{})
	if err != nil {
		b.Fatalf("this needs the ingress of the local cluster: %v", err)
	}
	took, memory := map[string]time.Duration{}, map[string]float64{}
	for b.Loop() {
		for _, name := range listeners() {
			k.awaitRest(b)
			start := time.Now()
			send := serve.NewSender("http://"+ingress.Spec.ClusterIP+"/", asHost(name+"."+drydock+".svc.cluster.local"))
			if err := send.Send(context.Background(), k.nothingToDo(name)); err != nil {
				b.Fatal(err)
			}
			took[name] += time.Since(start)
			memory[name] += k.memory(b, name)
		}
	}
	for _, name := range listeners() {
		b.ReportMetric(float64(took[name].Milliseconds())/float64(b.N), "ms-"+name)
		b.ReportMetric(memory[name]/float64(b.N), "MiB-"+name)
	}
}

// nothingToDo returns an event of a set that does not exist. The function must look for the set.
func (k *knative) nothingToDo(function string) event.Event {
	return events.NewChanged(events.Ref{Namespace: k.Namespace, Name: "none"}, "bench", api.Function(function))
}

// asHost sends requests to an ingress under another host name.
type asHost string

func (h asHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = string(h)
	return http.DefaultTransport.RoundTrip(r)
}

// memory waits for the kubelet's first measurement of the function's container, and returns its MiB without the page
// cache.
func (k *knative) memory(b *testing.B, function string) (mebibytes float64) {
	b.Helper()
	k.Eventually("the kubelet has measured "+function, func() string {
		nodes, err := k.Kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, node := range nodes.Items {
			text, err := k.Kube.CoreV1().RESTClient().Get().Resource("nodes").Name(node.Name).SubResource("proxy").Suffix(
				"stats/summary").DoRaw(context.Background())
			if err != nil {
				return err.Error()
			}
			var stats summary
			if err := json.Unmarshal(text, &stats); err != nil {
				return err.Error()
			}
			if mebibytes = stats.of(k.functions.latest(function)); mebibytes > 0 {
				return ""
			}
		}
		return "it has not"
	})
	return mebibytes
}

// summary is the part of the kubelet's stats that is needed here (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type summary struct {
	Pods []struct {
		PodRef     struct{ Name string }
		Containers []struct {
			Name   string
			Memory struct{ RSSBytes uint64 }
		}
	}
}

func (s summary) of(pod string) (mebibytes float64) {
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			if p.PodRef.Name == pod && c.Name == "function" {
				mebibytes = float64(c.Memory.RSSBytes) / (1 << 20)
			}
		}
	}
	return mebibytes
}

// Package metrics serves the metrics that a HorizontalPodAutoscaler reads to the API server of tests: the aggregated APIs metrics.k8s.io,
// custom.metrics.k8s.io and external.metrics.k8s.io. The values of a namespace are in a ConfigMap there. So the server of one process can
// answer for the tests of another process.
package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ConfigMap is the name of the ConfigMap with the values of a namespace.
const ConfigMap = "metrics"

// External returns the key of a metric without an object.
func External(metric string) string { return "external." + metric }

// Pods returns the key of a metric of pods. All pods of a namespace have the same value.
func Pods(metric string) string { return "pods." + metric }

// CPU is the key of the CPU usage of each container.
const CPU = "cpu"

// Set sets metrics of the namespace, as quantities such as "250m".
func Set(t testing.TB, kube kubernetes.Interface, namespace string, values map[string]string) {
	t.Helper()
	ctx, maps := context.Background(), kube.CoreV1().ConfigMaps(namespace)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMap}, Data: values}
	_, err := maps.Create(ctx, config, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, config, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatalf("setting metrics of namespace %s: %v", namespace, err)
	}
}

// resources are the resources of each API, by group and version. They are read-only. An autoscaler only reads, and a
// namespace that ends has
// nothing to delete.
var resources = map[string][]metav1.APIResource{
	"metrics.k8s.io/v1beta1":          {{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"get", "list"}}},
	"custom.metrics.k8s.io/v1beta2":   {{Name: "pods/any", Namespaced: true, Kind: "MetricValueList", Verbs: metav1.Verbs{"get"}}},
	"external.metrics.k8s.io/v1beta1": {{Name: "any", Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}},
}

// groupVersions are the APIs, in order.
func groupVersions() []string { return slices.Sorted(maps.Keys(resources)) }

type handler struct{ kube kubernetes.Interface }

// ServeHTTP answers /apis/GROUP/VERSION and /apis/GROUP/VERSION/namespaces/NAMESPACE/WHAT.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) < 3 || path[0] != "apis" || resources[path[1]+"/"+path[2]] == nil {
		http.NotFound(w, r)
		return
	}
	group := path[1] + "/" + path[2]
	if len(path) == 3 {
		write(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
			GroupVersion: group, APIResources: resources[group]})
		return
	}
	if len(path) < 6 || path[3] != "namespaces" {
		http.NotFound(w, r)
		return
	}
	items, err := h.items(r.Context(), group, path[4], path[5:], r.URL.Query().Get("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	kind := map[bool]string{true: "PodMetricsList", false: resources[group][0].Kind}[path[1] == "metrics.k8s.io"]
	write(w, object{"kind": kind, "apiVersion": group, "metadata": object{}, "items": items})
}

type object map[string]any

func write(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // if it fails, the API server has closed the connection
}

// items returns the values of the metric. Without values of the test the list is empty.
func (h handler) items(ctx context.Context, group, namespace string, what []string, selector string) ([]object, error) {
	config, err := h.kube.CoreV1().ConfigMaps(namespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return []object{}, nil
	}
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	switch {
	case strings.HasPrefix(group, "external."):
		value, ok := config.Data[External(what[0])]
		if !ok {
			return []object{}, nil
		}
		return []object{{"metricName": what[0], "metricLabels": object{}, "timestamp": now, "value": value}}, nil
	case len(what) == 3 && (what[0] != "pods" || what[1] != "*"):
		return nil, fmt.Errorf("this server has metrics of pods only, not of %s %s", what[0], what[1])
	}
	pods, err := h.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	items := []object{}
	for _, pod := range pods.Items {
		if item := itemOf(&pod, what, config.Data, now); item != nil {
			items = append(items, item)
		}
	}
	return items, nil
}

// itemOf returns the metric of the pod, or nil.
func itemOf(pod *corev1.Pod, what []string, values map[string]string, now string) object {
	if len(what) == 1 { // metrics.k8s.io
		value, ok := values[CPU]
		if !ok {
			return nil
		}
		var containers []object
		for _, c := range pod.Spec.Containers {
			containers = append(containers, object{"name": c.Name, "usage": object{"cpu": value, "memory": "1Mi"}})
		}
		return object{"metadata": object{"name": pod.Name, "namespace": pod.Namespace}, "timestamp": now, "window": "1s",
			"containers": containers}
	}
	value, ok := values[Pods(what[2])]
	if !ok {
		return nil
	}
	return object{"describedObject": object{"kind": "Pod", "apiVersion": "v1", "namespace": pod.Namespace, "name": pod.Name},
		"metric": object{"name": what[2]}, "timestamp": now, "windowSeconds": 1, "value": value}
}

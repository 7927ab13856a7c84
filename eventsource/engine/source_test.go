//go:build cluster

package engine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

// connectToCluster connects to the control plane of the test suite.
func connectToCluster(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	path := os.Getenv("DRYDOCK_TEST_KUBECONFIG")
	if path == "" {
		t.Fatal("DRYDOCK_TEST_KUBECONFIG is not set; make test-api starts an API server and sets it")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("DRYDOCK_TEST_KUBECONFIG: %v", err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatalf("DRYDOCK_TEST_KUBECONFIG=%s is set, but its API server does not answer: %v", path, err)
	}
	return config, client
}

func newNamespace(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "engine-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return ns.Name
}

func newSet(name string, labels map[string]string) *appsv1.StatefulSet {
	app := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			},
		},
	}
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.OperationLabel: "o"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
}

// TestSourceReportsOnlyWatchedObjects: the adapter reports opted-in sets and claims of operations in its namespaces. A busy function does
// not delay it.
func TestSourceReportsOnlyWatchedObjects(t *testing.T) {
	config, client := connectToCluster(t)
	watched, other := newNamespace(t, client), newNamespace(t, client)
	seen, done := make(chan string, 100), make(chan struct{})
	tr := newTestEngine(t, map[api.Function]handlerFunc{
		api.Sift: func(_ context.Context, e event.Event) (*event.Event, error) {
			seen <- fmt.Sprintf("%s %s %s/%s", e.Type(), e.Extensions()["kind"], e.Extensions()["namespace"], e.Extensions()["name"])
			<-done
			return nil, nil
		},
	}, func(c *Config) { c.Source = &Source{Config: config, Namespaces: []string{watched}} })
	tr.start(t)
	defer close(done)

	managed := map[string]string{api.ManagedLabel: "true"}
	create := func(namespace string, s *appsv1.StatefulSet) {
		if _, err := client.AppsV1().StatefulSets(namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	createClaim := func(name string) {
		if _, err := client.CoreV1().PersistentVolumeClaims(watched).Create(t.Context(), newClaim(name),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The adapter does not report objects that exist before its watches begin, and does not show when they begin.
	for begun, i := map[string]bool{}, 0; !begun["StatefulSet"] || !begun["PersistentVolumeClaim"]; i++ {
		create(watched, newSet(fmt.Sprintf("probe-%d", i), managed))
		createClaim(fmt.Sprintf("probe-%d", i))
		for quiet := false; !quiet; {
			select {
			case got := <-seen:
				begun[strings.Fields(got)[1]] = true
			case <-time.After(100 * time.Millisecond):
				quiet = true
			}
		}
	}
	create(other, newSet("elsewhere", managed))
	create(watched, newSet("stranger", nil))
	createClaim("data-web-0")
	create(watched, newSet("web", managed))
	patch := []byte(`{"metadata":{"annotations":{"drydock.dev/resize":"auto"}}}`)
	if _, err := client.AppsV1().StatefulSets(watched).Patch(t.Context(), "web", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.AppsV1().StatefulSets(watched).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	want := map[string]bool{
		events.SourceAdd + " PersistentVolumeClaim " + watched + "/data-web-0": true,
		events.SourceAdd + " StatefulSet " + watched + "/web":                  true,
		events.SourceUpdate + " StatefulSet " + watched + "/web":               true,
		events.SourceDelete + " StatefulSet " + watched + "/web":               true,
	}
	for len(want) > 0 {
		got := await(t, fmt.Sprint(want), seen)
		delete(want, got)
		for _, never := range []string{other + "/elsewhere", watched + "/stranger"} {
			if strings.HasSuffix(got, never) {
				t.Errorf("an event for %s", never)
			}
		}
	}
}

//go:build cluster

package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/kit/proxy"
)

// The population: managed sets without pods, each with the claims of three members. Nothing is to do for them.
const (
	namespaces    = 100
	sets          = 10_000
	claimsOfASet  = 3
	writesAtOnce  = 32
	patienceOfAll = 10 * time.Minute
)

var populated sync.Once

// populate creates the population once, and waits until the controllers have seen it.
func populate(b *testing.B) *rest.Config {
	b.Helper()
	config := rest.CopyConfig(kit.APIConfig(b))
	config.QPS, config.ContentType = -1, runtime.ContentTypeProtobuf
	populated.Do(func() {
		kit.InstallRights(b, kit.APIPath(b), kit.Settings().Image)
		client := kubernetes.NewForConfigOrDie(config)
		if isPopulated(b, client) {
			return
		}
		began := time.Now()
		inParallel(b, namespaces, func(ctx context.Context, n int) error { return createNamespace(ctx, client, n) })
		inParallel(b, sets, func(ctx context.Context, n int) error { return createSet(ctx, client, n) })
		awaitControllers(b, client)
		b.Logf("%d sets and %d claims in %d namespaces exist after %s", sets, sets*claimsOfASet, namespaces, time.Since(began).Round(time.Second))
	})
	return config
}

// isPopulated reports whether an earlier run on the same API server has created the population.
func isPopulated(b *testing.B, client kubernetes.Interface) bool {
	b.Helper()
	last, err := client.CoreV1().PersistentVolumeClaims("").List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		b.Fatal(err)
	}
	return len(last.Items) >= sets*claimsOfASet
}

func inParallel(b *testing.B, count int, do func(context.Context, int) error) {
	b.Helper()
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(writesAtOnce)
	for n := range count {
		group.Go(func() error { return do(ctx, n) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}

func namespace(n int) string { return fmt.Sprintf("scale-%02d", n%namespaces) }

func createNamespace(ctx context.Context, client kubernetes.Interface, n int) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(n)}},
		metav1.CreateOptions{})
	return unlessExists(err)
}

// createSet creates a set with the claims of its members. A third of the sets were resized before.
func createSet(ctx context.Context, client kubernetes.Interface, n int) error {
	set := database(n)
	created, err := client.AppsV1().StatefulSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{FieldManager: "kubectl"})
	if unlessExists(err) != nil {
		return err
	}
	if err == nil && n%3 == 0 {
		if err := addRecord(ctx, client, created); err != nil {
			return err
		}
	}
	for ordinal := range claimsOfASet {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-%s-%d", set.Name, ordinal), Labels: set.Spec.Selector.MatchLabels},
			Spec:       *set.Spec.VolumeClaimTemplates[0].Spec.DeepCopy(),
		}
		_, err := client.CoreV1().PersistentVolumeClaims(set.Namespace).Create(ctx, claim, metav1.CreateOptions{})
		if unlessExists(err) != nil {
			return err
		}
	}
	return nil
}

// database returns a set as kubectl apply creates it: with probes, resources, an environment, and its manifest in an annotation.
func database(n int) *appsv1.StatefulSet {
	set := build.Set(fmt.Sprintf("db-%d", n), build.Replicas(0), build.Template("data", "10Gi", "none"))
	set.Namespace, set.ResourceVersion, set.UID, set.Generation, set.Status = namespace(n), "", "", 0, appsv1.StatefulSetStatus{}
	set.Labels["app.kubernetes.io/name"], set.Labels["app.kubernetes.io/managed-by"] = "postgresql", "Helm"
	set.Annotations = map[string]string{}
	container := &set.Spec.Template.Spec.Containers[0]
	for i := range 15 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("POSTGRES_SETTING_%d", i), Value: "a value of usual length"})
	}
	probe := &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "exec pg_isready -U postgres -h 127.0.0.1 -p 5432"}}}}
	container.ReadinessProbe, container.LivenessProbe = probe, probe
	container.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/postgresql"}}
	manifest, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	set.Annotations[corev1.LastAppliedConfigAnnotation] = string(manifest)
	return set
}

// addRecord adds the record of a resize that has succeeded, and its request.
func addRecord(ctx context.Context, client kubernetes.Interface, set *appsv1.StatefulSet) error {
	var claims []string
	for ordinal := range claimsOfASet {
		claims = append(claims, fmt.Sprintf("data-%s-%d", set.Name, ordinal))
	}
	record := build.Operation(api.Succeeded, build.Members(api.MemberMoved, claims...))
	record.Request, record.Set = "data=10Gi", api.SetRef{Name: set.Name, UID: set.UID}
	record.Finished = operation.Moment(build.Now)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		api.ResizeAnnotation: record.Request, api.StatusAnnotation: record.Encode()}}})
	if err != nil {
		return err
	}
	_, err = client.AppsV1().StatefulSets(set.Namespace).Patch(ctx, set.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func unlessExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// awaitControllers waits until the StatefulSet controller has observed every set.
func awaitControllers(b *testing.B, client kubernetes.Interface) {
	b.Helper()
	for deadline := time.Now().Add(patienceOfAll); ; {
		list, err := client.AppsV1().StatefulSets("").List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			b.Fatal(err)
		}
		behind := 0
		for i := range list.Items {
			if list.Items[i].Status.ObservedGeneration != list.Items[i].Generation {
				behind++
			}
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the StatefulSet controller has not observed %d sets after %s", behind, patienceOfAll)
		}
		<-time.After(2 * time.Second)
	}
}

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

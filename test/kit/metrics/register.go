package metrics

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// server is the metrics server of this process. It runs while a test uses it.
type server struct {
	mu     sync.Mutex
	users  int
	stop   func()
	config *rest.Config
	kube   kubernetes.Interface
	// namespace is the namespace of the server's Service.
	namespace string
}

var shared server

// Serve registers metrics with the API server until the test ends.
func Serve(t testing.TB, config *rest.Config) {
	t.Helper()
	if err := shared.join(config); err != nil {
		t.Fatalf("serving metrics: %v", err)
	}
	t.Cleanup(shared.leave)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := shared.answers()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for the metrics: %v", err)
		}
	}
}

// answers requests each of the APIs from the API server. The server of this process or of another process answers.
func (s *server) answers() error {
	for _, group := range groupVersions() {
		if _, err := s.kube.Discovery().RESTClient().Get().AbsPath("/apis", group).DoRaw(context.Background()); err != nil {
			return fmt.Errorf("asking for %s: %w", group, err)
		}
	}
	return nil
}

// join starts the server for its first user.
func (s *server) join(config *rest.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	if s.users > 1 {
		return nil
	}
	s.config, s.kube = config, kubernetes.NewForConfigOrDie(config)
	listener, err := net.Listen("tcp", net.JoinHostPort(address(), "0"))
	if err != nil {
		return err
	}
	https := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler{s.kube}, ReadHeaderTimeout: time.Minute}}
	https.StartTLS()
	if err := s.createService(listener.Addr().(*net.TCPAddr)); err != nil {
		https.Close()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { s.keepRegistered(ctx) })
	s.stop = func() {
		cancel()
		done.Wait()
		s.unregister()
		https.Close()
	}
	return nil
}

// leave stops the server after its last user.
func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// address returns an address of the machine, because the address of an endpoint must not be a loopback address.
func address() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

const service = "metrics"

// createService creates the Service through which the API server reaches this server.
func (s *server) createService(at *net.TCPAddr) error {
	ctx, port := context.Background(), int32(at.Port)
	named := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kit-metrics-"}}
	ns, err := s.kube.CoreV1().Namespaces().Create(ctx, named, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.namespace = ns.Name
	_, err = s.kube.CoreV1().Services(s.namespace).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	labels := map[string]string{discoveryv1.LabelServiceName: service}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: service, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{at.IP.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}}
	_, err = s.kube.DiscoveryV1().EndpointSlices(s.namespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

func registrations(config *rest.Config) dynamic.ResourceInterface {
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	return dynamic.NewForConfigOrDie(config).Resource(services)
}

// keepRegistered registers the APIs that have no server. The registration of another process disappears when that
// process ends.
func (s *server) keepRegistered(ctx context.Context) {
	for ctx.Err() == nil {
		RemoveStale(s.config)
		for _, group := range groupVersions() {
			_, _ = registrations(s.config).Create(ctx, s.registration(group), metav1.CreateOptions{}) // it may exist already
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// label marks the registrations of this package. Its value is the namespace of the Service.
const label = "kit.drydock.dev/metrics"

func (s *server) registration(groupVersion string) *unstructured.Unstructured {
	group, version, _ := strings.Cut(groupVersion, "/")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": version + "." + group, "labels": map[string]any{label: s.namespace}},
		"spec": map[string]any{"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": s.namespace, "name": service, "port": int64(443)}}}}
}

func (s *server) unregister() {
	ctx := context.Background()
	_ = registrations(s.config).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: label + "=" + s.namespace})
	_ = s.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
}

// stale is how long a registration may be unavailable.
const stale = 5 * time.Second

// RemoveStale removes the registrations of killed processes. While they exist, no namespace can end.
func RemoveStale(config *rest.Config) {
	ctx := context.Background()
	all, err := registrations(config).List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return // the next round tries again
	}
	for _, r := range all.Items {
		if since := unavailableSince(&r); !since.IsZero() && time.Since(since) > stale {
			uid := r.GetUID()
			err := registrations(config).Delete(ctx, r.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if err == nil || apierrors.IsNotFound(err) {
				_ = kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Delete(ctx, r.GetLabels()[label], metav1.DeleteOptions{})
			}
		}
	}
}

// unavailableSince returns when the API server has found the registration unavailable, or zero.
func unavailableSince(registration *unstructured.Unstructured) time.Time {
	conditions, _, _ := unstructured.NestedSlice(registration.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] == "Available" && c["status"] == "False" {
			at, _ := time.Parse(time.RFC3339, fmt.Sprint(c["lastTransitionTime"]))
			return at
		}
	}
	return time.Time{}
}

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// terminatingAPI is an API server that refuses every write with the error for a terminating namespace.
type terminatingAPI struct {
	build.Lists
	written []string
}

func (s *terminatingAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.Lists.ServeHTTP(w, r)
		return
	}
	s.written = append(s.written, r.Method+" "+r.URL.Path)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, web0, errors.New("it is being terminated"))
	refusal.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(refusal.ErrStatus)
}

// writesInNamespace returns the writes that restore tries for a member whose new claim must be created. The API server refuses each of
// them with the error for a terminating namespace.
func writesInNamespace(t *testing.T, namespace *corev1.Namespace) []string {
	t.Helper()
	lists := build.EmptyLists()
	lists["namespaces"] = []metav1.Object{namespace}
	lists["nodes"] = []metav1.Object{build.Node()}
	record := movingOne(api.MemberSwapping, build.MemberDue(0, time.Hour), build.Due(24*time.Hour*36500))
	all := append(setWith(record), append(journalOf(web0), heldPodOf(0)...)...)
	for _, object := range append(append(all, oldVolume(web0)...), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))...) {
		switch object.(type) {
		case *appsv1.StatefulSet:
			lists["statefulsets"] = append(lists["statefulsets"], object)
		case *appsv1.ControllerRevision:
			lists["controllerrevisions"] = append(lists["controllerrevisions"], object)
		case *corev1.Pod:
			lists["pods"] = append(lists["pods"], object)
		case *corev1.PersistentVolume:
			lists["persistentvolumes"] = append(lists["persistentvolumes"], object)
		default:
			t.Fatalf("%T", object)
		}
	}
	handler := &terminatingAPI{Lists: lists}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&clientgo.Config{Host: server.URL}), build.Settings(), slog.New(slog.DiscardHandler))
	_, _ = f.Handle(context.Background(), events.NewFromUser(events.MemberChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	return handler.written
}

// TestRefusalReleasesPodsOnlyInTerminatingNamespace: a webhook may return the error of another, terminating namespace. The pods of this
// namespace must stay held. A released pod would start on an empty volume.
func TestRefusalReleasesPodsOnlyInTerminatingNamespace(t *testing.T) {
	release := fmt.Sprintf("PATCH /api/v1/namespaces/%s/pods/web-0", build.Namespace)
	stays := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace}}
	if written := writesInNamespace(t, stays); len(written) == 0 || slices.Contains(written, release) {
		t.Errorf("the pod is released, or nothing was written: %q", written)
	}
	leaves := stays.DeepCopy()
	leaves.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if written := writesInNamespace(t, leaves); !slices.Contains(written, release) {
		t.Errorf("the pod blocks the namespace for ever: %q", written)
	}
}

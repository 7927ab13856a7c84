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

// refusing is an API server that answers each write as it does in a namespace that is being deleted.
type refusing struct {
	build.Lists
	written []string
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// writesTo are the writes of restore, each of which is refused, for a member whose claim is to be created.
func writesTo(t *testing.T, namespace *corev1.Namespace) []string {
	t.Helper()
	lists := build.Plurals()
	lists["namespaces"] = []metav1.Object{namespace}
	lists["nodes"] = []metav1.Object{build.Node()}
	record := moving0(api.MemberSwapping, build.MemberDue(0, time.Hour), build.Due(24*time.Hour*36500))
	all := append(set(record), append(journal(web0), held(0)...)...)
	for _, object := range append(append(all, oldVolume(web0)...), copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))...) {
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
	handler := &refusing{Lists: lists}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&clientgo.Config{Host: server.URL}), build.Settings(), slog.New(slog.DiscardHandler))
	_, _ = f.Handle(context.Background(), events.NewByHand(events.MemberChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	return handler.written
}

// TestPodsAreReleasedOnlyIfTheirNamespaceIsBeingDeleted: a webhook may hand on the refusal of another namespace as its own. A pod that is
// released because of that would start on an empty volume.
func TestPodsAreReleasedOnlyIfTheirNamespaceIsBeingDeleted(t *testing.T) {
	release := fmt.Sprintf("PATCH /api/v1/namespaces/%s/pods/web-0", build.Namespace)
	stays := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace}}
	if written := writesTo(t, stays); len(written) == 0 || slices.Contains(written, release) {
		t.Errorf("its pod is released, or nothing was tried: %q", written)
	}
	leaves := stays.DeepCopy()
	leaves.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if written := writesTo(t, leaves); !slices.Contains(written, release) {
		t.Errorf("the namespace waits for the pod for ever: %q", written)
	}
}

package detectresize

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime/debug"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/build"
)

// TestRejectedRequestOfReachedSizeIsSurvived: see TestRetryAfterSlowStorageIsNoSuccess. The volumes have 1Ti, the claims request 128Mi, and
// the user retries. A quota refuses that the claims request 1Ti again. The resize must go on without that, or refuse with words. It must
// not panic with each event.
func TestRejectedRequestOfReachedSizeIsSurvived(t *testing.T) {
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=128Mi", api.DeadlineExceeded, api.Expanding
		for _, name := range []string{"data-web-0", "data-web-1"} {
			r.Expansions = append(r.Expansions, api.Expansion{Claim: name, UID: types.UID("uid-" + name), Template: "data",
				Volume: "pv-" + name, From: resource.MustParse("64Mi"), To: resource.MustParse("128Mi"), Withdraws: resource.MustParse("1Ti")})
		}
	})
	lists := build.EmptyLists()
	lists["storageclasses"] = []metav1.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: expandableClass},
		AllowVolumeExpansion: ptr.To(true)}}
	lists["namespaces"] = []metav1.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace}}}
	lists["statefulsets"] = expandableSet(failed, build.Annotation(api.RetryAnnotation, "now"))
	lists["pods"] = pods()
	for _, name := range []string{"data-web-0", "data-web-1"} {
		both := expandable(name, "128Mi", "1Ti")
		lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], both[0])
		lists["persistentvolumes"] = append(lists["persistentvolumes"], both[1])
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && path.Base(path.Dir(r.URL.Path)) == "persistentvolumeclaims" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
				Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: "exceeded quota: storage"})
			return
		}
		lists.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("detect-resize panics with each event: %v\n%s", p, debug.Stack())
		}
	}()
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.Settings(), owners.BuiltIn(), slog.New(slog.DiscardHandler))
	_, err := f.Handle(t.Context(), events.NewFromUser(events.Retry, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	t.Log(err)
}

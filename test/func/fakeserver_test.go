package functest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
)

// request is a request to a fake server.
type request struct {
	method, path string
	header       http.Header
	body         []byte
}

// recorder is an HTTP server on the loopback address that records its requests.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	seen []request
}

// record starts a recorder with the given answers.
func record(t *testing.T, answer http.HandlerFunc) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.seen = append(r.seen, request{q.Method, q.URL.Path, q.Header, body})
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.CloseClientConnections)
	t.Cleanup(r.Close)
	return r
}

// find returns the first request with this method and path.
func (r *recorder) find(method, path string) (request, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, seen := range r.seen {
		if seen.method == method && seen.path == path {
			return seen, true
		}
	}
	return request{}, false
}

// requests lists the requests, for messages.
func (r *recorder) requests() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, seen := range r.seen {
		lines = append(lines, seen.method+" "+seen.path)
	}
	return strings.Join(lines, "\n")
}

// fakeAPIServer is an API server with the given StatefulSets and no other objects. It shows that an event reaches the function, and that
// the function reaches its API server. Other tests use a real API server.
func fakeAPIServer(t *testing.T, sets ...any) *recorder {
	t.Helper()
	return record(t, func(w http.ResponseWriter, q *http.Request) {
		kinds := map[string][2]string{
			"statefulsets": {"apps/v1", "StatefulSetList"}, "controllerrevisions": {"apps/v1", "ControllerRevisionList"},
			"jobs":              {"batch/v1", "JobList"},
			"persistentvolumes": {"v1", "PersistentVolumeList"}, "persistentvolumeclaims": {"v1", "PersistentVolumeClaimList"},
		}
		resource := path.Base(q.URL.Path)
		kind, list := kinds[resource]
		switch {
		case !list:
			refuse(w, http.StatusNotFound, "NotFound", "the fake API server has none")
		case resource == "statefulsets":
			reply(w, http.StatusOK, map[string]any{"apiVersion": kind[0], "kind": kind[1], "items": append([]any{}, sets...)})
		default:
			reply(w, http.StatusOK, map[string]any{"apiVersion": kind[0], "kind": kind[1], "items": []any{}})
		}
	})
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code,
		"message": message})
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// setWithRequest returns a StatefulSet with a request, so that sift wakes detect-resize.
func setWithRequest() map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{
		"namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7",
		"labels":      map[string]string{"drydock.dev/managed": "true"},
		"annotations": map[string]string{"drydock.dev/resize": "data=20Gi"},
	}}
}

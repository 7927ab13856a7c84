package build

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// Lists is an API server for reading: it has objects by plural name. It answers lists, with pages, labels and
// namespaces, and single objects.
// A list with an unknown plural name fails.
type Lists map[string][]metav1.Object

// EmptyLists returns empty lists of all kinds that Drydock reads.
func EmptyLists() Lists {
	l := Lists{}
	for _, plural := range []string{"statefulsets", "persistentvolumeclaims", "persistentvolumes", "controllerrevisions", "jobs", "pods",
		"scalers", "horizontalpodautoscalers", "volumeattachments", "namespaces", "storageclasses", "resourcequotas", "limitranges",
		"configmaps", "nodes"} {
		l[plural] = nil
	}
	return l
}

// Serve runs the server until the test ends.
func (l Lists) Serve(t testing.TB) *rest.Config {
	t.Helper()
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// ServeHTTP answers like an API server.
func (l Lists) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	namespace := ""
	if i := slices.Index(parts, "namespaces"); i >= 0 && i+2 < len(parts) {
		namespace = parts[i+1]
	}
	if objects, known := l[path.Base(r.URL.Path)]; known {
		page(w, r, named(matching(objects, namespace, r.URL.Query().Get("labelSelector")), r.URL.Query().Get("fieldSelector")))
		return
	}
	objects, known := l[path.Base(path.Dir(r.URL.Path))]
	if r.Method != http.MethodGet || !known {
		answer(w, http.StatusInternalServerError, "InternalError")
		return
	}
	for _, o := range objects {
		if o.GetName() == path.Base(r.URL.Path) && o.GetNamespace() == namespace {
			_ = json.NewEncoder(w).Encode(o)
			return
		}
	}
	answer(w, http.StatusNotFound, "NotFound")
}

func matching(objects []metav1.Object, namespace, selector string) []metav1.Object {
	selects, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	match := []metav1.Object{}
	for _, o := range objects {
		if (namespace == "" || o.GetNamespace() == namespace) && selects.Matches(labels.Set(o.GetLabels())) {
			match = append(match, o)
		}
	}
	return match
}

// named returns the objects with the name in the field selector, or all objects if it is empty.
func named(objects []metav1.Object, selector string) []metav1.Object {
	name, asked := strings.CutPrefix(selector, "metadata.name=")
	return slices.DeleteFunc(objects, func(o metav1.Object) bool { return asked && o.GetName() != name })
}

// page writes one page of the list, with the limit and the continue token of the request.
func page(w http.ResponseWriter, r *http.Request, objects []metav1.Object) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to, next := len(objects), ""
	if limit, _ := strconv.Atoi(r.URL.Query().Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		next = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]string{"continue": next}, "items": objects[from:to]})
}

func answer(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code})
}

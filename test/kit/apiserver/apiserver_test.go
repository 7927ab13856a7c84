package apiserver

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	jane     = Client{"jane", "kubectl-edit"}
	function = Client{"system:serviceaccount:drydock:idle-timeout", "drydock"}
	web      = Key{"statefulsets", "shop", "web"}
	claim    = Key{"persistentvolumeclaims", "shop", "data-web-0"}
)

// withSet returns a server with a StatefulSet of three replicas and a claim.
func withSet(t *testing.T) *Server {
	t.Helper()
	s := New(nil)
	for resource, text := range map[string]string{
		"statefulsets": `{"metadata":{"namespace":"shop","name":"web","labels":{"drydock.dev/managed":"true"}},
			"spec":{"replicas":3,"serviceName":"web","persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain"},
			"template":{"spec":{"containers":[{"name":"db","image":"db:1"}]}}}}`,
		"persistentvolumeclaims": `{"metadata":{"namespace":"shop","name":"data-web-0"},"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`,
	} {
		o := &Object{}
		if err := o.UnmarshalJSON([]byte(`{"kind":"x","apiVersion":"x",` + text[1:])); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(jane, resource, o, false); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// send sends a request of idle-timeout.
func send(t *testing.T, s *Server, method, path, kind, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Impersonate-User", function.User)
	request, err := Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	return s.Serve(request)
}

const set = "/apis/apps/v1/namespaces/shop/statefulsets/web"

func TestAnswersAreThoseOfKubernetes(t *testing.T) {
	json := string(types.JSONPatchType)
	for name, row := range map[string]struct {
		method, path, kind, body string
		code                     int
	}{
		"a patch":                    {"PATCH", set, json, `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`, 200},
		"a patch of another version": {"PATCH", set, json, `[{"op":"replace","path":"/metadata/resourceVersion","value":"0"}]`, 409},
		"a patch that does not fit":  {"PATCH", set, json, `[{"op":"remove","path":"/metadata/annotations/a"}]`, 422},
		"a merge":                    {"PATCH", set, string(types.MergePatchType), `{"metadata":{"annotations":{"a":"b"}}}`, 200},
		"an unknown patch":           {"PATCH", set, "text/plain", `{}`, 400},
		"a changed service":          {"PATCH", set, json, `[{"op":"replace","path":"/spec/serviceName","value":"x"}]`, 422},
		"a read":                     {"GET", set, "", "", 200},
		"a read of nothing":          {"GET", set + "x", "", "", 404},
		"a list":                     {"GET", "/apis/apps/v1/statefulsets?labelSelector=a%3Db", "", "", 200},
		"a kind that does not exist": {"GET", "/apis/example.com/v1/things", "", "", 404},
		"a deletion of another UID":  {"DELETE", set, "", `{"preconditions":{"uid":"x"}}`, 409},
		"a deletion":                 {"DELETE", set, "", `{"preconditions":{"uid":"statefulset-web-1"}}`, 200},
		"a name that is taken": {"POST", "/apis/apps/v1/namespaces/shop/statefulsets", "",
			`{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{"name":"web"}}`, 409},
		"a smaller claim, not bound": {"PATCH", "/api/v1/namespaces/shop/persistentvolumeclaims/data-web-0", json,
			`[{"op":"replace","path":"/spec/resources/requests/storage","value":"1Gi"}]`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSet(t)
			before := len(s.Log())
			if got := send(t, s, row.method, row.path, row.kind, row.body).StatusCode; got != row.code {
				t.Errorf("status %d, want %d", got, row.code)
			}
			if changed := len(s.Log()) > before; changed != (row.code == 200 && row.method != "GET") {
				t.Errorf("changed: %t", changed)
			}
		})
	}
}

func TestObjectsChangeAsInKubernetes(t *testing.T) {
	s := withSet(t)
	scaled, err := s.Change(jane, web, "", func(o *Object) error { setField(o, int64(1), "spec", "replicas"); return nil })
	if err != nil || scaled.GetGeneration() != 2 {
		t.Errorf("generation %d after a change of the spec, %v", scaled.GetGeneration(), err)
	}
	status, err := s.Change(function, web, "status", func(o *Object) error {
		setField(o, int64(7), "status", "replicas")
		setField(o, int64(7), "spec", "replicas")
		return nil
	})
	typed := Decode[appsv1.StatefulSet](status)
	if err != nil || typed.Status.Replicas != 7 || *typed.Spec.Replicas != 1 || typed.Generation != 2 {
		t.Errorf("a write of the status: %+v, %v", typed, err)
	}
	again, err := s.Change(jane, web, "", func(o *Object) error { setField(o, int64(1), "spec", "replicas"); return nil })
	if err != nil || again.GetResourceVersion() != status.GetResourceVersion() {
		t.Errorf("a write that changes nothing has version %s, %v", again.GetResourceVersion(), err)
	}
	managers := map[string]string{}
	for _, entry := range again.GetManagedFields() {
		managers[entry.Manager] += string(entry.FieldsV1.Raw)
	}
	if !strings.Contains(managers[jane.Manager], "f:replicas") || strings.Contains(managers[function.Manager], "f:replicas") {
		t.Errorf("managers: %v", managers)
	}
	bound := func(o *Object) error { setField(o, "2Gi", "status", "capacity", "storage"); return nil }
	shrink := func(o *Object) error { setField(o, "1Gi", "spec", "resources", "requests", "storage"); return nil }
	if _, err := s.Change(jane, claim, "status", bound); err != nil {
		t.Error(err)
	}
	if _, err := s.Change(jane, claim, "", shrink); !apierrors.IsInvalid(err) {
		t.Errorf("a claim below its capacity: %v", err)
	}
}

// TestDeletionWaitsForFinalizersAndPods: an object goes when nothing holds it any more.
func TestDeletionWaitsForFinalizersAndPods(t *testing.T) {
	s := withSet(t)
	pod := Encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, Spec: corev1.PodSpec{NodeName: "n"}})
	if _, err := s.Create(jane, "pods", pod, false); err != nil {
		t.Fatal(err)
	}
	running := Key{"pods", "shop", "web-0"}
	for _, k := range []Key{claim, running} {
		if err := s.Delete(jane, k, metav1.DeleteOptions{}); err != nil || s.Get(k) == nil || s.Get(k).GetDeletionTimestamp() == nil {
			t.Errorf("%s is gone at once, or stays: %v", k, err)
		}
	}
	hold := func(o *Object) error { o.SetFinalizers(append(o.GetFinalizers(), "x/y")); return nil }
	if _, err := s.Change(jane, claim, "", hold); err == nil {
		t.Error("a deleted claim gets another finalizer")
	}
	if _, err := s.Change(jane, claim, "", func(o *Object) error { o.SetFinalizers(nil); return nil }); err != nil || s.Get(claim) != nil {
		t.Errorf("the claim stays without a finalizer: %v", err)
	}
	if s.EndGrace(jane, running); s.Get(running) != nil {
		t.Error("the pod stays after its end")
	}
	last := s.Log()[len(s.Log())-1]
	if last.Key != running || last.Before == nil || last.After != nil {
		t.Errorf("the last commit is %+v", last)
	}
}

package apiserver

import (
	"errors"
	"net/http"
	"path/filepath"
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
func withSet(t *testing.T, policies *Policies) *Server {
	t.Helper()
	s := New(policies)
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
			s := withSet(t, nil)
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
	s := withSet(t, nil)
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
	s := withSet(t, nil)
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

// TestPoliciesOfConfigAreEvaluated: Kubernetes' own code judges the policies as they are installed.
func TestPoliciesOfConfigAreEvaluated(t *testing.T) {
	policies, err := LoadPolicies(filepath.Join("..", "..", "..", "config", "policy"), func(_, group, resource, _ string) bool {
		return group != "drydock.dev" || resource != "records"
	})
	if err != nil {
		t.Fatal(err)
	}
	forge := func(o *Object) error {
		setField(o, map[string]any{"drydock.dev/sleep": "{}"}, "metadata", "annotations")
		return nil
	}
	scale := func(o *Object) error { setField(o, int64(0), "spec", "replicas"); return nil }
	rename := func(o *Object) error {
		o.SetLabels(map[string]string{"drydock.dev/managed": "true", "app": "x"})
		return nil
	}
	annotate := func(key, value string) func(*Object) error {
		return func(o *Object) error {
			setField(o, map[string]any{"drydock.dev/" + key: value}, "metadata", "annotations")
			return nil
		}
	}
	growVolumes := Client{"system:serviceaccount:drydock:grow-volumes", "drydock"}
	detectResize := Client{"system:serviceaccount:drydock:detect-resize", "drydock"}
	restore, orphan := Client{"system:serviceaccount:drydock:restore", "drydock"}, metav1.DeletePropagationOrphan
	server := withSet(t, nil)
	operation := func(o *Object) error {
		setField(o, map[string]any{"drydock.dev/status": "{}"}, "metadata", "annotations")
		return nil
	}
	if _, err := server.Change(jane, web, "", operation); err != nil {
		t.Fatal(err)
	}
	server.policies = policies
	if err := server.Delete(restore, web, metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), "propagation policy Orphan") {
		t.Errorf("restore deletes a set with its pods: %v", err)
	}
	if err := server.Delete(restore, web, metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Errorf("restore cannot replace a set: %v", err)
	}
	for name, row := range map[string]struct {
		by      Client
		edit    func(*Object) error
		refused string
	}{
		"a user scales":              {jane, scale, ""},
		"a user writes a record":     {jane, forge, "drydock-records"},
		"idle-timeout scales":        {function, scale, "drydock-fence-sets"},
		"scale scales":               {Client{"system:serviceaccount:drydock:scale", "drydock"}, scale, ""},
		"idle-timeout changes label": {function, rename, ""},
		"a user writes a floor":      {jane, annotate("grow-to", "data=1Gi"), "drydock-records"},

		"grow-volumes raises floors":             {growVolumes, annotate("grow-to", "data=15Gi,logs=150000000"), ""},
		"grow-volumes gives a floor a class":     {growVolumes, annotate("grow-to", "data=15Gi@fast"), "drydock-fence-sets"},
		"grow-volumes gives a floor a + ":        {growVolumes, annotate("grow-to", "data=15Gi+"), "drydock-fence-sets"},
		"grow-volumes follows the templates":     {growVolumes, annotate("grow-to", "auto"), "drydock-fence-sets"},
		"grow-volumes writes the user's request": {growVolumes, annotate("resize", "data=15Gi+"), "drydock-fence-sets"},
		"grow-volumes retries":                   {growVolumes, annotate("retry", "growth"), "drydock-fence-sets"},
		"detect-resize raises floors":            {detectResize, annotate("grow-to", "data=15Gi"), "drydock-fence-sets"},
		"detect-resize takes up a retry":         {detectResize, annotate("retry", "event"), ""},
		"backup scales":                          {Client{"system:serviceaccount:drydock:backup", "drydock"}, scale, "drydock-fence-sets"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withSet(t, policies).Change(row.by, web, "", row.edit)
			if refused := new(apierrors.StatusError); (row.refused == "") != (err == nil) ||
				row.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), row.refused)) {
				t.Errorf("%v, want a refusal by %q", err, row.refused)
			}
		})
	}
	for who, refused := range map[string]bool{"pause-owner": false, "restore": true, "grow-volumes": true} {
		t.Run(who+" removes the copy of a pause's record", func(t *testing.T) {
			server := withSet(t, policies)
			if _, err := server.Change(jane, web, "", annotate("owner-paused", "{}")); err != nil {
				t.Fatalf("an operator cannot copy it: %v", err)
			}
			_, err := server.Change(Client{"system:serviceaccount:drydock:" + who, "drydock"}, web, "", func(o *Object) error {
				annotations := o.GetAnnotations()
				delete(annotations, "drydock.dev/owner-paused")
				o.SetAnnotations(annotations)
				return nil
			})
			if (err != nil) != refused {
				t.Errorf("%v, want refused %v", err, refused)
			}
		})
	}
}

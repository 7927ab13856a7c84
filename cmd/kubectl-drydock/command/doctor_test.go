package command

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// tree is an object in JSON.
type tree = map[string]any

// patient is an API server that doctor examines.
type patient struct {
	// objects are the answers to GET by path. A text is a log.
	objects tree
	// denied are resources that reviews do not allow.
	denied []string
	// forbidden rejects every request but that for the version.
	forbidden bool
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	object, found := p.objects[r.URL.Path]
	lines, isLog := object.(string)
	switch {
	case p.forbidden && r.URL.Path != "/version":
		answer(w, http.StatusForbidden, tree{"kind": "Status", "apiVersion": "v1", "reason": "Forbidden", "code": 403})
	case r.Method == http.MethodPost:
		answer(w, http.StatusCreated, p.review(r.Body))
	case isLog:
		_, _ = io.WriteString(w, lines)
	case found:
		answer(w, http.StatusOK, object)
	default:
		answer(w, http.StatusNotFound, tree{"kind": "Status", "apiVersion": "v1", "reason": "NotFound", "code": 404})
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// review answers a review of rights.
func (p *patient) review(body io.Reader) authorizationv1.SubjectAccessReview {
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(body).Decode(&review)
	review.Status.Allowed = !slices.Contains(p.denied, review.Spec.ResourceAttributes.Resource)
	return review
}

// run runs kubectl drydock doctor.
func (p *patient) run(t *testing.T, now time.Time, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewTLSServer(p)
	defer server.Close()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return now })
	root.SetArgs(append([]string{"doctor", "-n", "shop"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// listOf returns a list of the items. Items without a kind get one.
func listOf(items ...any) tree {
	for _, item := range items {
		if object := item.(tree); object["kind"] == nil {
			object["kind"], object["apiVersion"] = "Object", "v1"
		}
	}
	return tree{"kind": "List", "apiVersion": "v1", "metadata": tree{}, "items": items}
}

func objectOf(object tree) tree { return listOf(object)["items"].([]any)[0].(tree) }

// named returns a list with an object for each name. All have the other fields.
func named(others tree, names ...string) tree {
	var items []any
	for _, name := range names {
		item := tree{"metadata": tree{"name": name}}
		for key, value := range others {
			item[key] = value
		}
		items = append(items, item)
	}
	return listOf(items...)
}

func versionWith(resource string) tree {
	return tree{"resources": []any{tree{"name": resource}}}
}

const (
	home      = "/api/v1/namespaces/drydock"
	rbacPath  = "/apis/rbac.authorization.k8s.io/v1"
	admitting = "/apis/admissionregistration.k8s.io/v1"
	tickLine  = `{"msg":"event","function":"sift","code":200,"type":"dev.knative.sources.ping"}` + "\n"
)

// common has what both installations have.
func common(t *testing.T) tree {
	t.Helper()
	manifests, err := install.Policies()
	if err != nil {
		t.Fatal(err)
	}
	var policies, bindings []any
	for _, manifest := range manifests {
		if manifest.GetKind() == "ValidatingAdmissionPolicy" {
			policies = append(policies, manifest.DeepCopy().Object)
		} else {
			bindings = append(bindings, manifest.DeepCopy().Object)
		}
	}
	expected := expectedParts(t)
	return tree{
		"/version":                   tree{"gitVersion": "v1.36.0"},
		admitting:                    versionWith("mutatingadmissionpolicies"),
		"/apis/storage.k8s.io/v1":    versionWith("volumeattributesclasses"),
		"/apis/drydock.dev/v1alpha1": versionWith("scalers"),
		home + "/configmaps/drydock-settings": objectOf(tree{"data": tree{
			"DRYDOCK_IMAGE": "example.com/drydock@sha256:1"}}),
		admitting + "/mutatingadmissionpolicies/drydock-templates": objectOf(tree{"metadata": tree{"name": "drydock-templates"}}),
		admitting + "/validatingadmissionpolicies":                 listOf(policies...),
		admitting + "/validatingadmissionpolicybindings":           listOf(bindings...),
		home + "/serviceaccounts":                                  named(nil, expected.Accounts...),
		rbacPath + "/clusterroles":                                 named(nil, expected.ClusterRoles...),
		rbacPath + "/clusterrolebindings":                          named(nil, slices.Concat(expected.Bindings, expected.FunctionBindings)...),
		"/apis/storage.k8s.io/v1/storageclasses": listOf(tree{"allowVolumeExpansion": true, "metadata": tree{"name": "standard",
			"annotations": tree{"storageclass.kubernetes.io/is-default-class": "true"}}}),
		rbacPath + "/namespaces/drydock/roles/drydock-mover-image": objectOf(tree{"rules": []any{tree{
			"resources": []any{"images"}, "resourceNames": []any{"example.com/drydock@sha256:1"}}}}),
	}
}

func expectedParts(t *testing.T) install.Parts {
	t.Helper()
	parts, err := install.Expected()
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// standalonePatient is a cluster with deploy/standalone.
func standalonePatient(t *testing.T) *patient {
	p := &patient{objects: common(t)}
	p.objects["/apis/apps/v1/namespaces/drydock/deployments/drydock-standalone"] = objectOf(tree{
		"spec": tree{"replicas": 2}, "status": tree{"readyReplicas": 2}})
	p.objects["/apis/coordination.k8s.io/v1/leases"] = listOf(tree{"metadata": tree{"namespace": "drydock"}, "spec": tree{
		"holderIdentity": "drydock-standalone-1_uid", "acquireTime": metav1.NewMicroTime(build.Now.Add(-time.Hour)),
		"renewTime": metav1.NewMicroTime(build.Now.Add(-2 * time.Second))}})
	p.objects[home+"/pods"] = named(tree{"status": tree{"phase": "Running"}}, "drydock-standalone-1", "drydock-standalone-2")
	p.objects[home+"/pods/drydock-standalone-1/log"] = tickLine
	return p
}

// knativePatient is a cluster with Drydock on Knative.
func knativePatient(t *testing.T) *patient {
	p := &patient{objects: common(t)}
	expected := expectedParts(t)
	ready := tree{"status": tree{"conditions": []any{tree{"type": "Ready", "status": "True"}}}}
	serving, eventing := "/apis/serving.knative.dev/v1/namespaces/drydock", "/apis/eventing.knative.dev/v1/namespaces/drydock"
	sources := "/apis/sources.knative.dev/v1/namespaces/drydock"
	p.objects[serving+"/services"] = named(ready, expected.Functions...)
	p.objects[eventing+"/triggers"] = named(ready, expected.Triggers...)
	p.objects[eventing+"/brokers"] = named(ready, "default")
	p.objects[sources+"/apiserversources"] = named(ready, "drydock")
	p.objects[sources+"/pingsources"] = named(ready, "tick")
	p.objects[serving+"/revisions"] = named(tree{"status": tree{"conditions": []any{tree{"type": "Active", "status": "False",
		"lastTransitionTime": metav1.NewTime(build.Now.Add(-time.Hour))}}}}, "sift-00001")
	p.objects[home+"/pods"] = named(tree{"status": tree{"phase": "Running"}}, "sift-00001-deployment-1")
	p.objects[home+"/pods/sift-00001-deployment-1/log"] = tickLine
	return p
}

// weaken changes a field of the spec of a policy or binding.
func weaken(t *testing.T, p *patient, resource, name, field string, value any) {
	t.Helper()
	for _, item := range p.objects[admitting+"/"+resource].(tree)["items"].([]any) {
		if object := item.(tree); object["metadata"].(tree)["name"] == name {
			object["spec"].(tree)[field] = value
			return
		}
	}
	t.Fatalf("there is no %s %s", resource, name)
}

// TestDoctorReadsTheCluster runs the command on API servers with different installations.
func TestDoctorReadsTheCluster(t *testing.T) {
	file := golden.Open(t)
	sick := standalonePatient(t)
	sick.denied = []string{"nodes", "rabbitmqclusters"}
	sick.objects["/apis/apps/v1/namespaces/shop/statefulsets"] = listOf(tree{"metadata": tree{"name": "mq", "namespace": "shop",
		"labels": tree{api.ManagedLabel: "true"}, "ownerReferences": []any{tree{"apiVersion": "rabbitmq.com/v1beta1",
			"kind": "RabbitmqCluster", "name": "mq", "controller": true}}}})
	sick.objects["/api/v1/namespaces/shop/pods"] = listOf(tree{"metadata": tree{"namespace": "shop", "name": "drydock-1-x"},
		"status": tree{"containerStatuses": []any{tree{"image": "example.com/drydock\x1b[2J",
			"state": tree{"waiting": tree{"reason": "ImagePullBackOff"}}}}}})
	sick.objects[home+"/pods/drydock-standalone-1/log"] = "no tick\n"
	asleep := knativePatient(t)
	asleep.objects[home+"/pods"] = named(nil)
	unready := knativePatient(t)
	unready.objects["/apis/sources.knative.dev/v1/namespaces/drydock/pingsources"] = named(tree{"status": tree{}}, "tick")
	delete(unready.objects, home+"/pods/sift-00001-deployment-1/log") // the pod has just ended
	weaker := standalonePatient(t)
	weaken(t, weaker, "validatingadmissionpolicies", "drydock-records", "matchConditions", []any{tree{"expression": "false"}})
	weaken(t, weaker, "validatingadmissionpolicybindings", "drydock-links", "matchResources", tree{"objectSelector": tree{}})
	unled := standalonePatient(t)
	delete(unled.objects, "/apis/coordination.k8s.io/v1/leases")
	stripped := standalonePatient(t)
	stripped.objects["/api/v1/namespaces/shop"] = objectOf(tree{"metadata": tree{"name": "shop"}})
	stripped.objects["/apis/apps/v1/namespaces/shop/statefulsets"] = listOf(tree{"metadata": tree{"name": "mq-server", "namespace": "shop",
		"labels": tree{api.ManagedLabel: "true"}, "ownerReferences": []any{tree{"apiVersion": "rabbitmq.com/v1beta1",
			"kind": "RabbitmqCluster", "name": "mq", "uid": "uid-mq", "controller": true}}}})
	stripped.objects["/apis/rabbitmq.com/v1beta1/namespaces/shop/rabbitmqclusters/mq"] = objectOf(tree{"apiVersion": "rabbitmq.com/v1beta1",
		"kind": "RabbitmqCluster", "metadata": tree{"name": "mq", "namespace": "shop", "uid": "uid-mq"}})
	badRows := standalonePatient(t)
	badRows.objects[home+"/configmaps/drydock-settings"] = objectOf(tree{"data": tree{
		"DRYDOCK_IMAGE": "example.com/drydock@sha256:1", "DRYDOCK_OWNERS": "- operator: all"}})
	empty := &patient{objects: tree{"/version": tree{"gitVersion": "v1.33.1"}}}
	forbidden := &patient{objects: empty.objects, forbidden: true}
	for _, row := range []struct {
		situation string
		on        *patient
	}{
		{"standalone", standalonePatient(t)},
		{"an operator removes the label, and the namespace allows no pause", stripped},
		{"Knative", knativePatient(t)},
		{"standalone with problems", sick},
		{"standalone, and a user has changed policies", weaker},
		{"standalone, and no replica has the Lease", unled},
		{"Knative, and no tick for an hour", asleep},
		{"Knative, and the PingSource is not ready", unready},
		{"the rows of owners have a mistake", badRows},
		{"nothing is installed", empty},
		{"the user may read nothing", forbidden},
	} {
		out, err := row.on.run(t, build.Now)
		if err != nil {
			out += "error: " + err.Error() + "\n"
		}
		file.Entry(t, row.situation, out)
	}
}

// TestDoctorPrintsADocument: the formats for programs have the same findings. The exit code is the same.
func TestDoctorPrintsADocument(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		out, err := standalonePatient(t).run(t, build.Now, "-o", format, "-A")
		if err != nil || !strings.Contains(out, "subject") || strings.HasPrefix(out, "{") != (format == "json") {
			t.Errorf("%s: %q, %v", format, out, err)
		}
	}
	out, err := (&patient{objects: common(t)}).run(t, build.Now, "-o", "json")
	if err == nil || !strings.Contains(out, `"level": "problem"`) || ExitCode(err) != ExitFailed {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := standalonePatient(t).run(t, build.Now, "-o", "xml"); err == nil {
		t.Error("an unknown format is accepted")
	}
}

// TestDoctorFailsWithoutAnAPIServer: without the version, nothing can be examined.
func TestDoctorFailsWithoutAnAPIServer(t *testing.T) {
	if out, err := (&patient{}).run(t, build.Now); err == nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestTextOfOtherUsersHasNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	findings := doctor.Diagnose(doctor.Facts{Server: doctor.Server{Version: "v1.36.0\x1b[2J\n"}})
	if err := printFindings(&out, findings); err != nil || strings.ContainsAny(out.String(), "\x1b\r") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestLevelsAreColouredOnATerminal: ok is green, a problem is red.
func TestLevelsAreColouredOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	master, screen, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := printFindings(screen, []doctor.Finding{{Subject: "server", Level: doctor.OK, State: "Kubernetes"},
		{Subject: "tick", Level: doctor.Problem, State: "none"}}); err != nil {
		t.Fatal(err)
	}
	want := "server   \x1b[32mok\x1b[m        Kubernetes\r\ntick     \x1b[31mproblem\x1b[m   none\r\n"
	shown := make([]byte, len(want))
	if _, err := io.ReadFull(master, shown); err != nil || string(shown) != want {
		t.Errorf("got %q, want %q, error %v", shown, want, err)
	}
	screen.Close()
}

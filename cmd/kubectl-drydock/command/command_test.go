package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// cluster is an API server with one set, two Brokers and the proxy of the Broker's Service.
type cluster struct {
	*httptest.Server
	mu     sync.Mutex
	posted []*http.Request
	wrote  []string
	token  string // the Authorization header of the last request
	fails  atomic.Bool
	gone   atomic.Bool // the set
	// resource is the RabbitmqCluster mq, or nil.
	resource map[string]any
	// scalersFail is true if only requests for Scalers get no answer.
	scalersFail atomic.Bool
}

// collections are the kinds of which the cluster has no objects.
var collections = []string{"pods", "persistentvolumeclaims", "persistentvolumes", "jobs", "controllerrevisions", "volumeattachments"}

const proxy = "/api/v1/namespaces/knative-eventing/services/http:broker-ingress:80/proxy/drydock/default"

func newCluster(t *testing.T, set *appsv1.StatefulSet) *cluster {
	t.Helper()
	set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	c := &cluster{}
	answer := func(w http.ResponseWriter, code int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.token = r.Header.Get("Authorization")
		if c.fails.Load() || c.scalersFail.Load() && strings.Contains(r.URL.Path, "/scalers") {
			answer(w, http.StatusServiceUnavailable, metav1.Status{Status: metav1.StatusFailure, Code: 503})
			return
		}
		if c.gone.Load() && strings.HasSuffix(r.URL.Path, "/statefulsets/"+set.Name) {
			answer(w, http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		if c.resource != nil && r.URL.Path == "/apis/rabbitmq.com/v1beta1/namespaces/shop/rabbitmqclusters/mq" {
			answer(w, http.StatusOK, c.resource)
			return
		}
		switch r.Method + " " + r.URL.Path {
		case "GET /apis/eventing.knative.dev/v1/namespaces/drydock/brokers/default":
			answer(w, http.StatusOK, map[string]any{"status": map[string]any{"address": map[string]any{
				"url": "http://broker-ingress.knative-eventing.svc.cluster.local/drydock/default"}}})
		case "GET /apis/eventing.knative.dev/v1/namespaces/drydock/brokers/new":
			answer(w, http.StatusOK, map[string]any{})
		case "GET /apis/apps/v1/namespaces/shop/statefulsets/" + set.Name:
			answer(w, http.StatusOK, set)
		case "GET /apis/apps/v1/namespaces/shop/statefulsets":
			answer(w, http.StatusOK, appsv1.StatefulSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSetList"},
				Items: []appsv1.StatefulSet{*set}})
		case "PATCH /apis/apps/v1/namespaces/shop/statefulsets/" + set.Name:
			var ops []any
			_ = json.NewDecoder(r.Body).Decode(&ops)
			c.wrote = append(c.wrote, fmt.Sprint(ops))
			answer(w, http.StatusOK, set)
		case "GET /apis/drydock.dev/v1alpha1/namespaces/shop/scalers":
			answer(w, http.StatusOK, map[string]any{"apiVersion": "drydock.dev/v1alpha1", "kind": "ScalerList", "items": []any{map[string]any{
				"apiVersion": "drydock.dev/v1alpha1", "kind": "Scaler", "metadata": map[string]any{"name": "pilot", "namespace": "shop"},
				"spec": map[string]any{"target": "web"}}}})
		case "PATCH /apis/drydock.dev/v1alpha1/namespaces/shop/scalers/pilot/scale":
			body, _ := io.ReadAll(r.Body)
			c.wrote = append(c.wrote, string(body))
			answer(w, http.StatusOK, map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"})
		case "POST " + proxy:
			c.posted = append(c.posted, r)
			w.WriteHeader(http.StatusAccepted)
		default:
			if r.Method == http.MethodGet && slices.Contains(collections, path.Base(r.URL.Path)) {
				answer(w, http.StatusOK, map[string]any{"metadata": map[string]any{}, "items": []any{}})
				return
			}
			answer(w, http.StatusNotFound, metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404})
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// run runs kubectl drydock against the cluster and returns its output.
func (c *cluster) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return c.runAt(t, time.Now(), args...)
}

// runAt runs kubectl drydock at the time.
func (c *cluster) runAt(t *testing.T, now time.Time, args ...string) (string, error) {
	t.Helper()
	useServer(t, c.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return now })
	root.SetArgs(append(args, "-n", "shop"))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestEmitPostsThroughTheProxyOfTheAPIServer: a laptop outside the cluster reaches the Broker in this way.
func TestEmitPostsThroughTheProxyOfTheAPIServer(t *testing.T) {
	c := newCluster(t, build.Set("web", build.Status(build.Operation(api.Moving))))
	out, err := c.run(t, "emit", "object.changed", "sts/web", "--concerns", "backup restore")
	if err != nil || !strings.Contains(out, "sent to broker drydock/default") {
		t.Fatalf("%q, %v", out, err)
	}
	if len(c.posted) != 1 {
		t.Fatalf("%d events", len(c.posted))
	}
	got := map[string]string{}
	for key, values := range c.posted[0].Header {
		if strings.HasPrefix(key, "Ce-") && key != "Ce-Id" {
			got[key] = values[0]
		}
	}
	want := map[string]string{"Ce-Specversion": "1.0", "Ce-Type": "dev.drydock.object.changed", "Ce-Source": "drydock.dev/kubectl",
		"Ce-Subject": "/apis/apps/v1/namespaces/shop/statefulsets/web", "Ce-Kind": "StatefulSet", "Ce-Namespace": "shop", "Ce-Name": "web",
		"Ce-Operation": build.ID, "Ce-Partitionkey": "uid-web", "Ce-Concerns": "backup restore",
		"Ce-Forbackup": "true", "Ce-Forrestore": "true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmitForAGroupNamesNoSet(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	out, err := c.run(t, "emit", "wake", "--group", "orders")
	if err != nil || !strings.Contains(out, "group orders: event dev.drydock.wake sent to broker drydock/default") {
		t.Fatalf("%q, %v", out, err)
	}
	header := c.posted[0].Header
	if header.Get("Ce-Group") != "orders" || header.Get("Ce-Namespace") != "shop" || header.Get("Ce-Name") != "" ||
		header.Get("Ce-Subject") != "" {
		t.Errorf("%v", header)
	}
}

func TestEmitPrintsTheEventWithoutSendingIt(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	for _, args := range [][]string{{"--dry-run=client"}, {"--dry-run"}, {"-o", "yaml"}, {"-o", "json"}} {
		out, err := c.run(t, append([]string{"emit", "resource.update", "web"}, args...)...)
		if err != nil || !strings.Contains(out, events.SourceUpdate) || !strings.Contains(out, "specversion") ||
			strings.HasPrefix(out, "{") != (args[len(args)-1] == "json") {
			t.Errorf("%q prints %q, %v", args, out, err)
		}
	}
	if len(c.posted) > 0 || len(c.wrote) > 0 {
		t.Errorf("%d events were sent, %d writes", len(c.posted), len(c.wrote))
	}
}

// TestErrorsNameTheObjectAndTheRemedy covers the errors that a user can make or meet.
func TestErrorsNameTheObjectAndTheRemedy(t *testing.T) {
	notManaged := newCluster(t, build.Set("web", build.Label(api.ManagedLabel, ""), build.Annotation(api.DeadLettersAnnotation, "{")))
	managed := newCluster(t, build.Set("web", build.Annotation(api.DeadLettersAnnotation, "{")))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		on        *cluster
		args      string
	}{
		{"the set does not exist", notManaged, "emit retry sts/db"},
		{"the set has not opted in", notManaged, "retry sts/web"},
		{"the event type does not exist", notManaged, "emit party sts/web"},
		{"the argument is a Deployment", notManaged, "retry deploy/web"},
		{"the event type has no groups", managed, "emit retry --group orders"},
		{"the group's name is invalid", managed, "emit wake --group or/ders"},
		{"a set and a group are given", managed, "emit wake sts/web --group orders"},
		{"the output format of plan is unknown", managed, "plan sts/web -o xml"},
		{"the set to plan for does not exist", managed, "plan sts/db"},
		{"the settings have no namespace", managed, "plan sts/web --settings drydock"},
		{"the output format of emit is unknown", managed, "emit retry sts/web -o xml"},
		{"a dry run on the server", managed, "emit retry sts/web --dry-run=server"},
		{"the Broker does not exist", managed, "emit retry sts/web --broker a/b"},
		{"the Broker has no namespace", managed, "emit retry sts/web --broker default"},
		{"the Broker is not ready", managed, "emit retry sts/web --broker drydock/new"},
		{"the URL has no scheme", managed, "emit retry sts/web --url localhost"},
		{"the list of dead letters is unreadable", managed, "redeliver sts/web --list"},
		{"there is no operation to retry", managed, "retry sts/web --event"},
	} {
		out, err := row.on.run(t, strings.Fields(row.args)...)
		if err == nil {
			t.Errorf("%s: no error, output %q", row.situation, out)
			continue
		}
		file.Entry(t, row.situation, "kubectl drydock "+row.args+"\nerror: "+err.Error())
	}
	if n := len(notManaged.wrote) + len(managed.wrote) + len(notManaged.posted) + len(managed.posted); n > 0 {
		t.Errorf("%d writes and events", n)
	}
}

// TestCredentialsGoOnlyToTheAPIServer: the server behind --url gets none of the cluster's credentials.
func TestCredentialsGoOnlyToTheAPIServer(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	seen := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusAccepted)
	}))
	defer other.Close()
	if _, err := c.run(t, "emit", "retry", "web", "--token", "secret", "--url", other.URL); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "" || c.token != "Bearer secret" {
		t.Errorf("the URL got %q, the API server %q", got, c.token)
	}
}

func TestNamesOfSetsAreCompleted(t *testing.T) {
	c := newCluster(t, build.Set("web"))
	useServer(t, c.URL)
	for _, args := range [][]string{{"status"}, {"resize"}, {"wake"}} {
		var out bytes.Buffer
		root := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
		root.SetArgs(append(append([]string{"__complete"}, args...), "-n", "shop", ""))
		if err := root.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "sts/web\n") {
			t.Errorf("%q completes to %q, %v", args, out.String(), err)
		}
	}
}

// TestHelpOfEachCommandFitsOnAScreen: only options shows the flags of all commands. Each help names it.
func TestHelpOfEachCommandFitsOnAScreen(t *testing.T) {
	names := []string{""}
	for _, c := range New(genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		names = append(names, c.Name())
	}
	for _, name := range names {
		help := helpOf(t, name)
		switch {
		case name == "help" || name == "completion": // those of the library
		case strings.Contains(help, "--as-group"):
			t.Errorf("the help of %q has the flags of all commands:\n%s", name, help)
		case !strings.Contains(help, toOptions):
			t.Errorf("the help of %q does not name options:\n%s", name, help)
		case strings.Count(help, "\n") > 60:
			t.Errorf("the help of %q has %d lines", name, strings.Count(help, "\n"))
		}
	}
	if out := run(t, "options"); !strings.Contains(out, "--as-group") || !strings.Contains(out, "--context") {
		t.Errorf("options shows\n%s", out)
	}
}

func helpOf(t *testing.T, name string) string {
	t.Helper()
	return run(t, strings.Fields(name+" --help")...)
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: io.Discard})
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

package command

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/test/kit/build"
)

// fitCluster has set web with a claim of 100Mi, settings with a margin of 20 %, and a kubelet that answers so.
func fitCluster(t *testing.T, code int, summary string) *httptest.Server {
	t.Helper()
	lists := build.EmptyLists()
	claim := build.Claim("data-web-0", "100Mi")
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Mi")}
	pod := build.PodOf("web", 0, "data")
	pod.Spec.NodeName = "node-1"
	lists["statefulsets"] = append(lists["statefulsets"], build.Set("web", build.Template("data", "100Mi", "fixed")))
	lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], claim)
	lists["pods"] = append(lists["pods"], pod)
	lists["configmaps"] = append(lists["configmaps"], &corev1.ConfigMap{Data: map[string]string{"DRYDOCK_SHRINK_MARGIN": "20"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "drydock", Name: "drydock-settings"}})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/nodes/node-1/proxy/stats/summary") {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, summary)
			return
		}
		lists.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func runFit(t *testing.T, server *httptest.Server, args ...string) (string, error) {
	t.Helper()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	root.SetArgs(append([]string{"fit", "-n", "shop"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestFitShowsTheCommand: the output has the used space, the size that fits, and the command. If a kubelet does not answer, it says so.
func TestFitShowsTheCommand(t *testing.T) {
	summary := fmt.Sprintf(
		`{"pods":[{"volume":[{"time":%q,"availableBytes":%d,"usedBytes":%d,"capacityBytes":%d,`+
			`"pvcRef":{"name":"data-web-0","namespace":"shop"}}]}]}`,
		time.Now().Format(time.RFC3339),
		90<<20,
		10<<20,
		100<<20,
	)
	server := fitCluster(t, 200, summary)
	out, err := runFit(t, server)
	for _, want := range []string{"data-web-0", "10 MiB", "15Mi", "85 MiB", "That is not the peak",
		"kubectl drydock plan -n shop sts/web --resize data=15Mi",
		"kubectl annotate -n shop sts web --overwrite drydock.dev/resize=data=15Mi"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, no %q in\n%s", err, want, out)
		}
	}
	if out, err := runFit(t, server, "--headroom", "10"); err != nil || !strings.Contains(out, "data=13Mi") ||
		strings.Contains(out, "assumed") {
		t.Errorf("20 %% of 12Mi do not stay free: %v\n%s", err, out)
	}
	if out, err := runFit(t, server, "--headroom", "10", "--settings", "drydock/other"); err != nil || !strings.Contains(out, "data=12Mi") ||
		!strings.Contains(out, "assumed to have the default settings") {
		t.Errorf("without settings: %v\n%s", err, out)
	}
	if out, err := runFit(t, server, "sts/web", "--headroom", "900"); err != nil || !strings.Contains(out, "as it is") ||
		strings.Contains(out, "annotate") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := runFit(t, server, "sts/other"); err == nil {
		t.Errorf("a set that is not there: %s", out)
	}
	if out, err := runFit(t, fitCluster(t, 403, "no")); err != nil || !strings.Contains(out, "not known") ||
		strings.Contains(out, "annotate") {
		t.Errorf("%v\n%s", err, out)
	}
}

package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/test/kit/build"
)

// halfUpgraded answers as after an install of the new image whose Deployment did not become ready: its Role names the new image, then the
// image of the functions that still run.
type halfUpgraded struct{ *upgradedCluster }

func (c halfUpgraded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/roles/drydock-mover-image") {
		answer(w, http.StatusOK, tree{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": tree{"name": "drydock-mover-image", "namespace": "drydock"},
			"rules": []any{tree{"apiGroups": []any{"drydock.dev"}, "resources": []any{"images"}, "verbs": []any{"use"},
				"resourceNames": []any{"example.com/drydock" + someDigest, "example.com/drydock" + strings.ReplaceAll(someDigest, "0", "1")}}}})
		return
	}
	c.upgradedCluster.ServeHTTP(w, r)
}

// TestRepeatedInstallKeepsTheImageOfRunningFunctions: the first install has timed out, the old functions run, and the user repeats
// the command.
func TestRepeatedInstallKeepsTheImageOfRunningFunctions(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	c := halfUpgraded{&upgradedCluster{installedCluster: newInstalledCluster(t)}}
	server := httptest.NewTLSServer(c)
	defer server.Close()
	useServer(t, server.URL)
	var out bytes.Buffer
	root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return build.Now })
	root.SetArgs([]string{"install", "--yes", "--timeout", "2s", "--edited-manifests=false", "--image", "example.com/drydock" + someDigest,
		"--standalone-image", "example.com/drydock-standalone" + someDigest})
	err := root.ExecuteContext(t.Context())
	if !strings.Contains(c.role, someDigest) {
		t.Fatalf("the Role was not applied: %v\n%s", err, out.String())
	}
	if old := strings.ReplaceAll(someDigest, "0", "1"); !strings.Contains(c.role, old) {
		t.Errorf("the image of the running functions is not allowed any more: %s", c.role)
	}
}

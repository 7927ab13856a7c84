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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/test/kit/build"
)

// TestHelmCommandNeverMeansAnotherCluster: without Helm's name of a flag, the suggested command would uninstall from the default cluster,
// where nothing is released.
func TestHelmCommandNeverMeansAnotherCluster(t *testing.T) {
	for _, flags := range []string{"--cluster test", "--cluster test --context prod", "--as-uid 1 --as me", "--token secret"} {
		c := newInstalledCluster(t)
		c.helm = [2]string{"drydock", "drydock"}
		c.Lists["statefulsets"] = []metav1.Object{}
		out, err := c.run(t, append([]string{"uninstall"}, strings.Fields(flags)...)...)
		if err != nil {
			t.Fatal(err, out)
		}
		_, remove, _ := strings.Cut(out+fmt.Sprint(err), "helm uninstall drydock -n drydock")
		if !strings.Contains(remove, "--kube-") || strings.Contains(remove, "secret") {
			t.Errorf("%s: the command has no cluster: %q", flags, remove)
		}
	}
}

const someDigest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestInstallLeavesTheObjectsOfHelm: uninstall leaves the objects of a Helm release alone. install must do the same: docs/install.md says
// "Use only one of three ways on a cluster".
func TestInstallLeavesTheObjectsOfHelm(t *testing.T) {
	c := newInstalledCluster(t)
	c.helm = [2]string{"drydock", "default"}
	out, err := c.run(t, "install", "--yes", "--timeout", "1s", "--image", "example.com/drydock"+someDigest,
		"--standalone-image", "example.com/drydock-standalone"+someDigest)
	if len(c.wrote) > 0 {
		t.Errorf("install has taken %d objects of the Helm release: %v\n%s", len(c.wrote), err, out)
	}
	if err == nil || !strings.Contains(err.Error(), "Helm") {
		t.Errorf("the error does not name Helm: %v", err)
	}
}

// upgradedCluster has an installation of an older image, and keeps the Role of the movers' images that install writes.
type upgradedCluster struct {
	*installedCluster
	images []any // of the Role before
	role   string
}

func (c *upgradedCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isRole := strings.HasSuffix(r.URL.Path, "/roles/drydock-mover-image")
	switch {
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		if isRole {
			c.mu.Lock()
			c.role = string(body)
			c.mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	case r.Method == http.MethodGet && isRole:
		answer(w, http.StatusOK, tree{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
			"metadata": tree{"name": "drydock-mover-image", "namespace": "drydock"},
			"rules": []any{tree{"apiGroups": []any{"drydock.dev"}, "resources": []any{"images"}, "verbs": []any{"use"},
				"resourceNames": c.images}}})
	default:
		c.installedCluster.ServeHTTP(w, r)
	}
}

// TestUpgradeKeepsTheImageOfRunningFunctions: until the new pods work, the old backup creates movers of the old image. The user may repeat
// an upgrade whose pods did not become ready in time.
func TestUpgradeKeepsTheImageOfRunningFunctions(t *testing.T) {
	const next = "example.com/drydock" + someDigest
	running := "example.com/drydock" + strings.ReplaceAll(someDigest, "0", "1")
	for name, images := range map[string][]any{"the first try": {running}, "the second try": {next, running}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			c := &upgradedCluster{installedCluster: newInstalledCluster(t), images: images}
			server := httptest.NewTLSServer(c)
			defer server.Close()
			useServer(t, server.URL)
			var out bytes.Buffer
			root := newAt(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, func() time.Time { return build.Now })
			root.SetArgs([]string{"install", "--yes", "--timeout", "2s", "--edited-manifests=false", "--image", next,
				"--standalone-image", "example.com/drydock-standalone" + someDigest})
			err := root.ExecuteContext(t.Context())
			if !strings.Contains(c.role, next) || !strings.Contains(c.role, running) {
				t.Errorf("the Role allows %s: %v\n%s", c.role, err, out.String())
			}
		})
	}
}

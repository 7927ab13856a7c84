package statuspage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/build"
)

// TestRightsAreExactlyThoseThatThePageUses compares config/rbac/status-page.yaml with the requests of all pages. A set in the middle of a
// resize needs the most rights: the node of a pod that is being stopped, and attachments for a member without a pod.
func TestRightsAreExactlyThoseThatThePageUses(t *testing.T) {
	objects := resizing(0)
	stopped := build.With(build.PodOf("web", 0, "data"), build.Held(0), build.Stopped())
	objects["pods"], objects["nodes"] = append(objects["pods"], stopped), []metav1.Object{build.Node()}
	objects["persistentvolumes"] = append(objects["persistentvolumes"], build.VolumeOf(build.Claim("data-web-0", "10Gi")))
	c := newCluster(t, objects)
	p := c.page(t)
	for _, path := range []string{"/", "/sets/" + build.Namespace + "/web"} {
		if w := get(t, p, path); w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if diff := cmp.Diff(granted(t), slices.Sorted(maps.Keys(c.seen))); diff != "" {
		t.Errorf("the rights differ from the requests (- is granted, + is used)\n%s", diff)
	}
}

// granted returns the rights in the roles of the page.
func granted(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kit.Root(t), "config", "rbac", string(api.StatusPage)+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rights := map[string]bool{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[verb+" "+resource] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(rights))
}

package command

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

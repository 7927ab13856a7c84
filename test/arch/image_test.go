package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// heavyPackages are the prefixes of packages that the functions must not link.
var heavyPackages = []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "knative.dev/"}

// TestFunctionsLinkNoHeavyPackages: a cold start delays a request. So the binary links no full clientset, no informers, no discovery and no
// Knative.
func TestFunctionsLinkNoHeavyPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "drydock.dev/cmd/drydock").Output()
	if err != nil {
		t.Fatalf("listing the packages of cmd/drydock: %v", err)
	}
	for _, linked := range strings.Fields(string(out)) {
		for _, heavy := range heavyPackages {
			if strings.HasPrefix(linked, heavy) && !strings.HasPrefix(linked, "k8s.io/client-go/kubernetes/scheme") {
				t.Errorf("cmd/drydock links %s", linked)
			}
		}
	}
}

package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// TestFunctionsLinkNoHeavyPackages: a cold start delays a request, so the binary must stay small. It links no full clientset, no
// informers, no Knative, and none of the usual dependencies of telemetry (docs/decisions, telemetry).
func TestFunctionsLinkNoHeavyPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "drydock.dev/cmd/drydock").Output()
	if err != nil {
		t.Fatalf("listing the packages of cmd/drydock: %v", err)
	}
	for _, linked := range strings.Fields(string(out)) {
		for _, heavy := range []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "knative.dev/",
			"google.golang.org/grpc", "google.golang.org/protobuf/proto", "github.com/prometheus/client_golang"} {
			if strings.HasPrefix(linked, heavy) && !strings.HasPrefix(linked, "k8s.io/client-go/kubernetes/scheme") {
				t.Errorf("cmd/drydock links %s", linked)
			}
		}
	}
}

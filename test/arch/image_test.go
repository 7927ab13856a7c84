package arch

import (
	"os/exec"
	"strings"
	"testing"
)

// TestImageIsLean: a function's cold start is paid inside somebody's request, so its binary links neither the full
// clientset, nor informers, nor Knative, nor what telemetry usually brings along (docs/decisions, telemetry).
func TestImageIsLean(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "drydock.dev/cmd/drydock").Output()
	if err != nil {
		t.Fatalf("listing what cmd/drydock links: %v", err)
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

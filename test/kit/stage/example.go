package stage

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// ApplyExample applies an example with an image that is on the node, and returns the manifests. The example must name its own image that
// many times.
func (s *Stage) ApplyExample(t testing.TB, name string, images int) string {
	t.Helper()
	manifests := s.Kubectl(t, "", "kustomize", filepath.Join(kit.Root(t), "examples", name))
	const image = "image: busybox:1.37"
	if n := strings.Count(manifests, image); n != images {
		t.Fatalf("examples/%s says %q %d times, want %d", name, image, n, images)
	}
	manifests = strings.ReplaceAll(manifests, image, "image: "+WorkloadImage)
	s.Kubectl(t, manifests, "-n", s.Namespace, "apply", "-f", "-")
	return manifests
}

// ScaleScaler scales the Scaler as a user does.
func (s *Stage) ScaleScaler(t testing.TB, scaler string, replicas int) {
	t.Helper()
	s.Kubectl(t, "", "-n", s.Namespace, "scale", "scaler", scaler, fmt.Sprintf("--replicas=%d", replicas))
}

// AwaitScaler waits for the Scaler's stage and count, as "idle 3".
func (s *Stage) AwaitScaler(t testing.TB, name, want string) {
	t.Helper()
	s.Eventually("Scaler "+name+" is "+want, func() string {
		scaler := s.Scaler(name)
		if scaler == nil {
			return "there is none"
		}
		status := scaler.Status
		if is := fmt.Sprintf("%s %d", status.Stage, status.Replicas); is != want {
			return fmt.Sprintf("it is %s: %+v", is, status.Conditions)
		}
		return ""
	})
}

//go:build cluster

package knative

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// TestScalerDrainsFromZero runs examples/drain: no function runs before the Scaler is scaled.
func TestScalerDrainsFromZero(t *testing.T) {
	k := setUp(t)
	manifests := k.ApplyExample(t, "drain", 2)
	t.Cleanup(func() { k.Kubectl(t, manifests, "-n", k.Namespace, "delete", "--ignore-not-found", "-f", "-") })
	k.AwaitScaler(t, "store", "idle 3")
	k.awaitRest(t)

	start := time.Now()
	k.ScaleScaler(t, "store", 1)
	k.AwaitScaler(t, "store", "idle 1")
	t.Logf("from three members to one took %s", time.Since(start).Round(100*time.Millisecond))
	if rows := strings.Fields(k.Exec(t, "store-0", "ls /data/rows")); len(rows) != 3*8 {
		t.Errorf("%d rows are left of 24: %v", len(rows), rows)
	}
	k.expectAppeared(t, start, "scale")
}

// usersFunction is a function of the user, without an account of Drydock.
const usersFunction = "hook-function"

// TestUsersFunctionRunsHook runs examples/hook-function: the Broker calls the user's function, and its answer continues
// the scaling.
func TestUsersFunctionRunsHook(t *testing.T) {
	k := setUp(t)
	folder := filepath.Join(kit.Root(t), "examples", "hook-function")
	function := k.build(t, usersFunction, "./examples/hook-function")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	service := strings.Replace(read("service.yaml"), "example.com/hook-function:1", function, 1)
	for _, manifest := range []string{service, read("trigger.yaml")} {
		k.Kubectl(t, manifest, "apply", "-f", "-")
		t.Cleanup(func() { k.Kubectl(t, manifest, "delete", "--ignore-not-found", "-f", "-") })
	}
	// After a Trigger's deletion, the Broker answers 404 to each event until its channel has removed the subscription, and gives the event
	// up 51 seconds later: in the next test. So the Trigger is deleted when there are no events.
	t.Cleanup(func() { k.awaitRest(t) })
	t.Cleanup(func() { k.DeleteSet("web", metav1.DeletePropagationForeground) })
	k.Kubectl(t, "", "-n", drydock, "wait", "--for=condition=Ready", "--timeout=3m", "ksvc/hook-function", "trigger/hook-function")
	k.CreateSet(stage.Workload("64Mi"))
	k.Kubectl(t, read("scaler.yaml"), "-n", k.Namespace, "apply", "-f", "-")
	// The next test has a set with the same name, which the Scaler would scale.
	t.Cleanup(func() { k.Kubectl(t, "", "-n", k.Namespace, "delete", "scaler", "web", "--ignore-not-found") })
	replicas := statefulset.Replicas(k.Set("web"))
	k.AwaitScaler(t, "web", fmt.Sprintf("idle %d", replicas))
	k.ScaleScaler(t, "web", int(replicas)+1)
	k.AwaitScaler(t, "web", fmt.Sprintf("idle %d", replicas+1))
}

package knative

import (
	"strings"
	"testing"
	"time"
)

// TestScalerDrainsFromZero runs examples/drain: no function runs before the Scaler is scaled.
func TestScalerDrainsFromZero(t *testing.T) {
	k := setUp(t)
	manifests := k.ApplyExample(t, "drain", 2)
	t.Cleanup(func() { k.Kubectl(t, manifests, "-n", k.Namespace, "delete", "--ignore-not-found", "-f", "-") })
	k.AwaitScaler(t, "store", "idle 3")
	k.awaitRest(t)

	start := time.Now()
	k.Rescale(t, "store", 1)
	k.AwaitScaler(t, "store", "idle 1")
	t.Logf("from three members to one took %s", time.Since(start).Round(100*time.Millisecond))
	if rows := strings.Fields(k.Exec(t, "store-0", "ls /data/rows")); len(rows) != 3*8 {
		t.Errorf("%d rows are left of 24: %v", len(rows), rows)
	}
	k.expectAppeared(t, start, "scale-hooks")
}

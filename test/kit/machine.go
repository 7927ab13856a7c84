package kit

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// heartbeats are the machines of this process that send heartbeats. The node lifecycle controller marks a machine as unreachable if it has
// not renewed its Lease for 50 s.
type heartbeats struct {
	mu      sync.Mutex
	beating map[string]bool
}

var machines = heartbeats{beating: map[string]bool{}}

const heartbeat = 10 * time.Second

// report creates the node if necessary, marks it as ready, and renews its Lease until the process ends or the machine
// is lost.
func (h *heartbeats) report(t testing.TB, kube kubernetes.Interface, name string) {
	t.Helper()
	h.mu.Lock()
	known := h.beating[name]
	h.beating[name] = true
	h.mu.Unlock()
	if known {
		return
	}
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating node %s: %v", name, err)
	}
	if err := SetNodeReady(ctx, kube, name, corev1.ConditionTrue); err != nil {
		t.Fatalf("node %s: %v", name, err)
	}
	go func() {
		for h.beats(name) {
			renewLease(ctx, kube, name)
			time.Sleep(heartbeat)
		}
	}()
}

func (h *heartbeats) beats(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beating[name]
}

func (h *heartbeats) stop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beating, name)
}

// renewLease tells the node lifecycle controller that the kubelet is alive. The next heartbeat repeats a failed
// renewal.
func renewLease(ctx context.Context, kube kubernetes.Interface, name string) {
	leases, now := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &now}}
		_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		return
	}
	if err == nil {
		lease.Spec.RenewTime = &now
		_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
}

// SetNodeReady writes the node's Ready condition, like a kubelet or the node lifecycle controller.
func SetNodeReady(ctx context.Context, kube kubernetes.Interface, name string, ready corev1.ConditionStatus) error {
	now := time.Now().UTC().Format(time.RFC3339)
	body := `{"status":{"conditions":[{"type":"Ready","status":"` + string(ready) + `","reason":"Kit","lastHeartbeatTime":"` + now +
		`","lastTransitionTime":"` + now + `"}]}}`
	_, err := kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
	return err
}

const nodeName = "kit"

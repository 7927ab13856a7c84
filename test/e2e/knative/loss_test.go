//go:build cluster

package knative

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// adapter selects the pods of the event source.
const adapter = "eventing.knative.dev/sourceName=drydock"

// TestEventSourceGoneForOneMinute deletes the event source. The tick finds a resize that is requested then.
// Invariants: I6.
func TestEventSourceGoneForOneMinute(t *testing.T) {
	k := setUp(t)
	k.CreateSet(stage.Workload("64Mi"))
	before := k.Data(t)
	t.Cleanup(func() { k.make(t, "configure") })
	k.removeSource(t)
	gone := time.Now()
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	k.AwaitPhase(t, api.Planned)
	t.Logf("found after %s without the adapter", time.Since(gone).Round(time.Second))
	<-time.After(time.Until(gone.Add(time.Minute)))
	k.make(t, "configure")
	k.ExpectResized(t, before)
}

// removeSource deletes the event source. make configure creates it again.
func (k *knative) removeSource(t *testing.T) {
	t.Helper()
	k.Kubectl(t, "", "-n", drydock, "delete", "apiserversource", "drydock", "--wait")
	k.Eventually("the adapter is gone", func() string {
		pods, err := k.Kube.CoreV1().Pods(drydock).List(context.Background(), metav1.ListOptions{LabelSelector: adapter})
		if err != nil || len(pods.Items) > 0 {
			return "it is there"
		}
		return ""
	})
}

// TestBrokerKilledDuringOperation kills the Broker's ingress and its channel's dispatcher with their events, during a
// copy and again during a swap.
// Invariants: I6.
func TestBrokerKilledDuringOperation(t *testing.T) {
	k := setUp(t)
	before := k.begin(t)
	for _, phase := range []api.MemberPhase{api.MemberCopying, api.MemberSwapping} {
		k.AwaitMember(t, phase)
		k.endPods(t, "knative-eventing", "eventing.knative.dev/brokerRole=ingress")
		k.endPods(t, "knative-eventing", "messaging.knative.dev/channel=in-memory-channel,messaging.knative.dev/role=dispatcher")
	}
	k.ExpectResized(t, before)
}

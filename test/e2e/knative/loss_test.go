//go:build cluster

package knative

import (
	"context"
	"slices"
	"strings"
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

// TestFunctionCrashesThreeTimes: backup's process dies during its first three events. The Broker tries again.
// Invariants: I6.
func TestFunctionCrashesThreeTimes(t *testing.T) {
	k := setUp(t)
	crashing := k.build(t, "drydock-crashing", "./test/e2e/knative/crashing")
	t.Cleanup(func() { // the deployer does not own the volume below, so an apply would keep it
		k.make(t, "undeploy", "FUNCTION=backup")
		k.make(t, "deploy", "FUNCTION=backup", "IMAGE="+image())
	})
	k.make(t, "deploy", "FUNCTION=backup", "IMAGE="+crashing)
	// The volume outlives the container and counts the crashes. The data mover is the real one.
	const patch = `[
	 {"op":"add","path":"/spec/template/spec/volumes","value":[{"name":"state","emptyDir":{}}]},
	 {"op":"add","path":"/spec/template/spec/containers/0/volumeMounts","value":[{"name":"state","mountPath":"/state"}]},
	 {"op":"replace","path":"/spec/template/spec/containers/0/env/0/value","value":"` + stage.Image + `"},
	 {"op":"replace","path":"/spec/template/metadata/annotations/autoscaling.knative.dev~1max-scale","value":"1"}]`
	k.Kubectl(t, "", "-n", drydock, "patch", "ksvc", "backup", "--type=json", "-p", patch)
	k.Kubectl(t, "", "-n", drydock, "wait", "--for=condition=Ready", "--timeout=120s", "ksvc/backup")
	before := k.begin(t)
	k.ExpectResized(t, before)
	var crashed []string
	for _, p := range k.functions.sorted() {
		for _, l := range p.lines {
			if l.Message == "crashing" {
				crashed = append(crashed, l.ID)
			}
		}
	}
	if len(crashed) != 3 || !slices.ContainsFunc(crashed, k.functions.handled) {
		t.Errorf("crashes at events %v, want three, and one of them handled when the Broker sent it again", crashed)
	}
}

// TestDeadLetterIsListedAndDeliveredAgain removes backup's rights. It fails until the Broker gives up. The set lists
// the dead letter, and a user sends it again when the rights are back.
// Invariants: I8.
func TestDeadLetterIsListedAndDeliveredAgain(t *testing.T) {
	k := setUp(t)
	k.functions.mayBeDenied = true
	t.Cleanup(func() { k.make(t, "configure") })
	k.Kubectl(t, "", "delete", "clusterrolebinding", "drydock-backup")
	before := k.begin(t)
	letters := ""
	k.Eventually("the letter is listed on the set", func() string {
		if letters = k.Set("web").Annotations[api.DeadLettersAnnotation]; letters == "" {
			return "it is not"
		}
		return ""
	})
	if !strings.Contains(letters, "backup") || len(letters) > 16<<10 {
		t.Errorf("%d bytes of letters: %s", len(letters), letters)
	}
	if list := k.plugin(t, "redeliver", "sts/web", "--list"); !strings.Contains(list, "backup") {
		t.Errorf("kubectl drydock redeliver --list says %s", list)
	}
	k.make(t, "configure")
	k.plugin(t, "redeliver", "sts/web")
	k.ExpectResized(t, before)
	if left := k.Set("web").Annotations[api.DeadLettersAnnotation]; left != "" {
		t.Errorf("letters are left after success: %s", left)
	}
}

// TestRetryEventRepeatsFailedOperation: a copy fails for good, because it must not copy a file of root. After the cause
// is fixed, a user's event repeats the operation.
// Invariants: I8.
func TestRetryEventRepeatsFailedOperation(t *testing.T) {
	k := setUp(t)
	k.set(t, "DRYDOCK_TRUST_BROKER", `"true"`) // the Broker forwards no token
	t.Cleanup(func() { k.set(t, "DRYDOCK_TRUST_BROKER", "null") })
	k.awaitRest(t) // functions that start now read the new setting
	k.LabelNamespace(api.RootMoverLabel, "no")
	t.Cleanup(func() { k.LabelNamespace(api.RootMoverLabel, "no") })
	k.CreateSet(stage.WithFileOfRoot(stage.Workload("64Mi")))
	before := k.Data(t)
	k.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := k.AwaitEnd(t)
	if status.Phase != api.Failed || !strings.Contains(status.Message, "roots-file") {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	k.AwaitReady(t)
	k.LabelNamespace(api.RootMoverLabel, api.AllowValue)
	k.plugin(t, "emit", "retry", "sts/web")
	k.Eventually("the operation is taken up", func() string {
		if now := k.Status("web"); now.Phase == api.Failed {
			return "it is not"
		}
		return ""
	})
	k.ExpectResized(t, before)
}

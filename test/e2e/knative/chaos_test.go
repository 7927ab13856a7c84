//go:build cluster

package knative

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

const (
	// chaosSets is the number of sets. Each has two operations. A step whose event is lost waits for the next tick, so many short chains end
	// sooner than few long ones.
	chaosSets = 25
	// killPause is the time between two kills.
	killPause = 5 * time.Second
)

// smallFill writes some files once, and marks that it has finished.
const smallFill = `cd /data && if [ ! -e filled ]; then
  dd if=/dev/urandom of=big bs=1M count=8 2>/dev/null; mkdir -p small; i=0
  while [ $i -lt 50 ]; do echo "row $i $HOSTNAME" > small/$i; i=$((i+1)); done; ln -s small/2 soft; sync; touch filled
fi; trap exit TERM; while :; do sleep 1 & wait; done`

// smallSum digests names, modes, owners, times and contents.
const smallSum = `cd /data && { find . -path ./lost+found -prune -o -print | grep -v '^[.]$' | sort | xargs stat -c '%N %F %a %u %g %Y'
 find . -path ./lost+found -prune -o -type f -print | sort | xargs sha256sum; } | sha256sum`

// smallCleanup is a cleanup pod that checks the data of the member.
const smallCleanup = `
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: look
      image: dev.local/busybox:1
      command: [sh, -c, "test -e /data/filled && test $(ls /data/small | wc -l) = 50"]
      volumeMounts: [{name: data, mountPath: /data}]
`

// TestBrokerPodsKilledDuringFiftyOperations kills a pod of the in-memory Broker or of the event source every few seconds, while 25 sets
// have two operations each. Only events are lost: every operation succeeds, the data is unchanged, and nothing is left behind.
// Invariants: I1, I6, I9.
func TestBrokerPodsKilledDuringFiftyOperations(t *testing.T) {
	k := setUp(t)
	k.Patience = 12 * time.Minute
	t.Cleanup(func() {
		k.make(t, "configure")
		k.Kubectl(t, "", "-n", drydock, "wait", "--for=condition=Ready", "--timeout=180s",
			"broker,inmemorychannel,apiserversource,pingsource,trigger", "--all")
	})
	k.setTick(t, "*/20 * * * * *") // shortens the test: a step whose event is lost waits for the next tick
	sets := k.createChaosSets(t)
	before := map[string]string{}
	for _, set := range sets {
		before[set.name] = k.Exec(t, set.name+"-0", smallSum)
	}

	start := time.Now()
	killer := k.startKiller()
	t.Cleanup(killer.stop)
	total := 0
	k.Eventually("every operation ends", func() string {
		var waiting []string
		total = 0
		for _, set := range sets {
			if problem := set.advance(t); problem != "" {
				waiting = append(waiting, problem)
			}
			total += set.done
		}
		return strings.Join(waiting, "; ")
	})
	took := time.Since(start)
	killer.stop()
	t.Logf("%d operations in %s; killed pods: %v; events that the Broker refused: %d", total, took.Round(time.Second), killer.killed,
		killer.refused)

	k.ExpectNothingLeft(t)
	k.expectChaosSets(t, sets, before)
	k.setTick(t, "* * * * *")
	k.awaitRest(t) // the Broker delivers nothing any more
	killer.expectLoss(t, k.functions)
}

// setTick changes the schedule of the tick.
func (k *knative) setTick(t *testing.T, schedule string) {
	t.Helper()
	k.Kubectl(t, "", "-n", drydock, "patch", "pingsource", "tick", "--type=merge", "-p",
		fmt.Sprintf(`{"spec":{"schedule":%q}}`, schedule))
}

// chaosSet is a set and its operations.
type chaosSet struct {
	name       string
	replicas   int32
	operations []chaosOperation
	// size is that of its volume in the end, and copies is the number of its resizes by copy.
	size    string
	copies  int
	done    int
	running bool
}

// chaosOperation is one operation. Its check returns "" when the operation has succeeded.
type chaosOperation struct {
	name  string
	begin func()
	check func(t *testing.T) string
}

// advance begins the next operation when the running one has ended. It returns what it waits for.
func (c *chaosSet) advance(t *testing.T) string {
	for c.done < len(c.operations) {
		now := c.operations[c.done]
		if !c.running {
			now.begin()
			c.running = true
		}
		if problem := now.check(t); problem != "" {
			return fmt.Sprintf("%s of %s: %s", now.name, c.name, problem)
		}
		c.done, c.running = c.done+1, false
	}
	return ""
}

// chaosSet returns the i-th set. No set has two resizes by copy, because such a resize has the most steps.
func (k *knative) chaosSet(i int) *chaosSet {
	name := fmt.Sprintf("chaos-%d", i)
	set := &chaosSet{name: name, replicas: 1, size: "64Mi"}
	resize := func(size string) chaosOperation {
		set.size = size
		if !set.grows(i) {
			set.copies++
		}
		return k.resizeTo(name, size)
	}
	switch i % 5 {
	case 0, 1:
		set.operations = []chaosOperation{k.sleepOf(name), k.wakeOf(name)}
	case 2, 3:
		set.replicas = 2
		set.operations = []chaosOperation{k.cleanupOf(name), resize("96Mi")}
	default:
		set.operations = []chaosOperation{resize("96Mi"), resize("128Mi")}
	}
	return set
}

// grows reports whether the i-th set is on volumes that grow in place.
func (*chaosSet) grows(i int) bool { return i%2 == 1 || i%5 == 4 }

// createChaosSets creates the sets, and waits until they and the baselines of their cleanups are ready.
func (k *knative) createChaosSets(t *testing.T) []*chaosSet {
	t.Helper()
	var sets []*chaosSet
	for i := range chaosSets {
		set, class := k.chaosSet(i), stage.Class
		if set.grows(i) {
			class = stage.GrowingClass
		}
		manifest := chaosManifest(set, class)
		manifest.Namespace = k.Namespace
		if _, err := k.Kube.AppsV1().StatefulSets(k.Namespace).Create(context.Background(), manifest, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating set %s: %v", set.name, err)
		}
		sets = append(sets, set)
	}
	for _, set := range sets {
		k.Eventually(set.name+" is ready", func() string {
			if problem := k.readyMembers(set.name, set.replicas); problem != "" {
				return problem
			}
			if doc := k.Cleanup(set.name); doc == nil || doc.Phase != api.Succeeded || doc.Reason != api.CleanupReady {
				return fmt.Sprintf("its cleanup is %+v", doc)
			}
			return k.uncounted(set.name)
		})
	}
	return sets
}

// chaosManifest returns the set with small data, which may sleep and be cleaned up.
func chaosManifest(planned *chaosSet, class string) *appsv1.StatefulSet {
	set := kit.WorldSet(planned.name, planned.replicas, "64Mi", "data")
	set.Annotations[api.CleanupTemplateAnnotation] = smallCleanup
	set.Annotations[api.IdleTimeoutAnnotation] = "1h"
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(class)
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](5)
	pod.SecurityContext.RunAsGroup = ptr.To[int64](1000)
	pod.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	pod.Containers[0] = corev1.Container{Name: "db", Image: stage.WorkloadImage,
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
	stage.RunScript(&pod.Containers[0], "/data", smallFill)
	return set
}

func (k *knative) cleanupOf(name string) chaosOperation {
	return chaosOperation{"the cleanup", func() { k.Scale(name, 1) }, func(*testing.T) string {
		if doc := k.Cleanup(name); doc == nil || doc.Phase != api.Succeeded || doc.Reason != api.CleanupCompleted {
			return fmt.Sprintf("%+v", doc)
		}
		return k.there("data-" + name + "-1")
	}}
}

func (k *knative) resizeTo(name, size string) chaosOperation {
	request := "data=" + size
	return chaosOperation{"the resize to " + size, func() {
		k.Annotate(name, map[string]string{api.ResizeAnnotation: request})
	}, func(t *testing.T) string {
		status := k.Status(name)
		switch {
		case status == nil || status.Request != request || !status.Phase.Terminal():
			return fmt.Sprintf("%+v", status)
		case status.Phase != api.Succeeded:
			t.Fatalf("set %s: phase %s: %s: %s", name, status.Phase, status.Reason, status.Message)
		}
		return k.readyMembers(name, 1)
	}}
}

func (k *knative) sleepOf(name string) chaosOperation {
	return chaosOperation{"the sleep", func() {
		k.Annotate(name, map[string]string{api.SleepRequestedAnnotation: idle.FormatTime(time.Now())})
	}, func(*testing.T) string {
		if sleep := k.Sleep(name); sleep == nil || sleep.Phase != api.Asleep {
			return fmt.Sprintf("%+v", sleep)
		}
		return k.readyMembers(name, 0)
	}}
}

func (k *knative) wakeOf(name string) chaosOperation {
	return chaosOperation{"the wake-up", func() {
		k.Annotate(name, map[string]string{api.LastActivityAnnotation: idle.FormatTime(time.Now())})
	}, func(*testing.T) string {
		if sleep := k.Sleep(name); sleep == nil || sleep.Phase != api.Succeeded {
			return fmt.Sprintf("%+v", sleep)
		}
		return k.readyMembers(name, 1)
	}}
}

// readyMembers returns "" if the set has this number of ready members, and no other.
func (k *knative) readyMembers(name string, want int32) string {
	if set := k.Set(name); set.Status.ReadyReplicas != want || set.Status.Replicas != want {
		return fmt.Sprintf("%d of %d members are ready, want %d", set.Status.ReadyReplicas, set.Status.Replicas, want)
	}
	return ""
}

// expectChaosSets checks the data, the size, the claims and the old volumes of the sets after all operations.
func (k *knative) expectChaosSets(t *testing.T, sets []*chaosSet, before map[string]string) {
	t.Helper()
	listed, copies := 0, 0
	for _, set := range sets {
		now := k.Set(set.name)
		if *now.Spec.Replicas != 1 || len(now.Finalizers) > 0 {
			t.Errorf("set %s has %d replicas and finalizers %v", set.name, *now.Spec.Replicas, now.Finalizers)
		}
		if after := k.Exec(t, set.name+"-0", smallSum); after != before[set.name] {
			t.Errorf("I1: the data of %s has the sum %s, before %s", set.name, after, before[set.name])
		}
		claim := k.Claim("data-" + set.name + "-0")
		if size := claim.Status.Capacity.Storage(); size.Cmp(*kit.Quantity(set.size)) < 0 {
			t.Errorf("the volume of %s has %s", set.name, size)
		}
		copies += set.copies
		if now.Annotations[api.DeadLettersAnnotation] != "" {
			listed++
		}
	}
	// Each resize by copy has left its old volume, and nothing else has.
	old := 0
	for _, v := range k.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" {
			old++
		}
	}
	if old != copies {
		t.Errorf("%d old volumes are kept, want %d", old, copies)
	}
	t.Logf("sets with a dead letter: %d", listed)
}

// killer kills pods of the Broker and of the event source, and posts events that it expects to be lost.
type killer struct {
	end     context.CancelFunc
	ended   sync.WaitGroup
	killed  map[string]int // by role
	posted  []string       // ids of events that the Broker has accepted
	refused int
}

// victims are the pods that the killer kills, in this order. The filter comes before the dispatcher: the dispatcher keeps events for which
// it finds no filter, and dies with them.
var victims = []struct{ role, namespace, selector string }{
	{"filter", "knative-eventing", "eventing.knative.dev/brokerRole=filter"},
	{"dispatcher", "knative-eventing", "messaging.knative.dev/channel=in-memory-channel,messaging.knative.dev/role=dispatcher"},
	{"ingress", "knative-eventing", "eventing.knative.dev/brokerRole=ingress"},
	{"adapter", drydock, adapter},
}

// startKiller begins to kill.
func (k *knative) startKiller() *killer {
	ctx, end := context.WithCancel(context.Background())
	l := &killer{end: end, killed: map[string]int{}}
	l.ended.Go(func() {
		for round := 0; ctx.Err() == nil; round++ {
			victim := victims[round%len(victims)]
			l.killed[victim.role] += k.kill(ctx, victim.namespace, victim.selector)
			if victim.role == "filter" {
				for i := range 3 {
					l.post(k, fmt.Sprintf("chaos-%d-%d", round, i))
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(killPause):
			}
		}
	})
	return l
}

// stop ends the killing, and waits for the end.
func (l *killer) stop() {
	l.end()
	l.ended.Wait()
}

// kill kills every pod with the label that is not already ending, and returns their number.
func (k *knative) kill(ctx context.Context, namespace, selector string) int {
	pods := k.Kube.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return 0
	}
	killed := 0
	for _, pod := range list.Items {
		options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		if pod.DeletionTimestamp == nil && pods.Delete(ctx, pod.Name, options) == nil {
			killed++
		}
	}
	return killed
}

// post sends an event that changes nothing: grow-volumes finds no set of this name, and only logs the id.
func (l *killer) post(k *knative, id string) {
	e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: k.Namespace, Name: id}, id, api.GrowVolumes)
	if err := k.post(e); err != nil {
		l.refused++
		return
	}
	l.posted = append(l.posted, e.ID())
}

// expectLoss checks that the killer has killed pods of each role, and that the Broker has lost events that it had accepted.
func (l *killer) expectLoss(t *testing.T, o *observer) {
	t.Helper()
	for _, victim := range victims {
		if l.killed[victim.role] < 3 {
			t.Errorf("only %d pods of the %s were killed", l.killed[victim.role], victim.role)
		}
	}
	lost := 0
	for _, id := range l.posted {
		if !o.handled(id) {
			lost++
		}
	}
	t.Logf("of %d events that the Broker accepted from this test, %d were lost", len(l.posted), lost)
	if lost == 0 {
		t.Error("no event was lost, so this test shows nothing")
	}
}

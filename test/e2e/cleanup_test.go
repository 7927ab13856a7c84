//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestCleanupMovesEveryShard runs examples/shards unchanged: four replicas with different shards become one replica
// with all shards. The namespace enforces the restricted Pod Security level.
// Invariants: I1.
func TestCleanupMovesEveryShard(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.LabelNamespace("pod-security.kubernetes.io/enforce", "restricted")
	s.ApplyExample(t, "shards", 2)
	awaitReplicas(s, "shards", 4)
	before, claims := shards(t, s, 4), claimUIDs(t, s, "shards", 4)
	if len(before) < 4*8 {
		t.Fatalf("%d shards, want 8 of each replica: %v", len(before), before)
	}
	address := stage.FreeAddress(t)
	drydock(t, s, "--tick", "2s", "--listen", address)
	awaitAccounted(s, "shards", 4)

	start := time.Now()
	s.Scale("shards", 1)
	awaitCleanup(s, "shards", api.Succeeded, api.CleanupCompleted)
	t.Logf("from four replicas to one took %s", time.Since(start).Round(time.Millisecond))
	awaitReplicas(s, "shards", 1)

	if diff := cmp.Diff(before, shards(t, s, 1)); diff != "" {
		t.Errorf("the shards have changed: %s", diff)
	}
	expectOrder(t, s)
	expectOnlyFirstReplica(t, s, claims[0])
	expectMetrics(t, address)

	s.Scale("shards", 3)
	awaitReplicas(s, "shards", 3)
	expectFresh(t, s, before, claims)
}

// awaitReplicas waits until the set has exactly n pods, all ready.
func awaitReplicas(s *stage.Stage, name string, n int32) {
	s.Eventually(fmt.Sprintf("%s has %d ready replicas", name, n), func() string {
		set := s.Set(name)
		if set.Status.ObservedGeneration < set.Generation || *set.Spec.Replicas != n || set.Status.Replicas != n ||
			set.Status.ReadyReplicas != n {
			return fmt.Sprintf("%d of %d are ready, %d are asked for", set.Status.ReadyReplicas, set.Status.Replicas, *set.Spec.Replicas)
		}
		return ""
	})
}

// awaitAccounted waits until Drydock has accepted the template and recorded the replicas.
func awaitAccounted(s *stage.Stage, name string, replicas int) {
	s.Eventually("the replicas are accounted for", func() string {
		if doc := s.Cleanup(name); doc == nil || doc.Span == nil || doc.Span.End != replicas {
			return fmt.Sprintf("the document is %+v", doc)
		}
		if l := api.LoadLedger(s.Set(name)); l == nil || l.Count != replicas {
			return fmt.Sprintf("the ledger is %+v", l)
		}
		return ""
	})
}

// awaitCleanup waits until the set's cleanup has ended with the phase and the reason.
func awaitCleanup(s *stage.Stage, name string, phase api.Phase, reason api.Reason) *api.Cleanup {
	var doc *api.Cleanup
	s.Eventually(fmt.Sprintf("the cleanup is %s %s", phase, reason), func() string {
		if doc = s.Cleanup(name); doc == nil || doc.Phase != phase || doc.Reason != reason {
			return fmt.Sprintf("the document is %+v", doc)
		}
		return ""
	})
	return doc
}

// shards returns the checksums of all shards of the first replicas, by name.
func shards(t *testing.T, s *stage.Stage, replicas int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for ordinal := range replicas {
		maps.Copy(all, shardsOf(t, s, ordinal))
	}
	return all
}

// shardsOf returns the checksums of one replica's shards.
func shardsOf(t *testing.T, s *stage.Stage, ordinal int) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for line := range strings.Lines(s.Exec(t, fmt.Sprintf("shards-%d", ordinal), "cd /data/shards && sha256sum *")) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.HasSuffix(fields[1], "-"+fields[0]) {
			t.Fatalf("%q is no shard: its name ends with another checksum", line)
		}
		sums[fields[1]] = fields[0]
	}
	return sums
}

// claimUIDs returns the UIDs of the claims of the first ordinals.
func claimUIDs(t *testing.T, s *stage.Stage, name string, ordinals int) []types.UID {
	t.Helper()
	uids := make([]types.UID, ordinals)
	for ordinal := range ordinals {
		claim := s.Claim(fmt.Sprintf("data-%s-%d", name, ordinal))
		if claim == nil || claim.Status.Phase != corev1.ClaimBound {
			t.Fatalf("the claim of ordinal %d is not bound: %+v", ordinal, claim)
		}
		uids[ordinal] = claim.UID
	}
	return uids
}

// expectOrder checks that the ordinals were cleaned up one after the other, according to the replica that got the
// shards and to Drydock's Events.
func expectOrder(t *testing.T, s *stage.Stage) {
	t.Helper()
	log := s.Exec(t, "shards-0", "cat /data/moved.log")
	t.Logf("moved.log:\n%s", log)
	var moved []string
	for line := range strings.Lines(log) {
		moved = append(moved, strings.Fields(line)[0])
	}
	if diff := cmp.Diff([]string{"3", "2", "1"}, moved); diff != "" {
		t.Errorf("moved.log has another order: %s", diff)
	}
	if diff := cmp.Diff(oneByOne(3, 2, 1), steps(t, s, "shards")); diff != "" {
		t.Errorf("the Events have another order: %s", diff)
	}
}

// oneByOne returns the steps of a cleanup that begins an ordinal after the end of the previous one.
func oneByOne(ordinals ...int) []string {
	var all []string
	for _, ordinal := range ordinals {
		all = append(all, fmt.Sprintf("%s %d", api.CleanupStarted, ordinal), fmt.Sprintf("%s %d", api.ClaimsDeleted, ordinal))
	}
	return all
}

var ordinalInMessage = regexp.MustCompile(`-(\d+)\b`)

// steps returns the beginnings and ends of ordinals in the set's Events.
func steps(t *testing.T, s *stage.Stage, set string) []string {
	t.Helper()
	var all []string
	for _, e := range story(t, s, set) {
		t.Logf("%s %s %s: %s", e.FirstTimestamp.UTC().Format(time.TimeOnly), e.Type, e.Reason, e.Message)
		if ordinal := ordinalInMessage.FindStringSubmatch(e.Message); e.Reason == string(api.CleanupStarted) ||
			e.Reason == string(api.ClaimsDeleted) {
			all = append(all, e.Reason+" "+ordinal[1])
		}
	}
	return all
}

// story returns Drydock's Events on the set in the order of their creation.
func story(t *testing.T, s *stage.Stage, set string) []corev1.Event {
	t.Helper()
	list, err := s.Kube.CoreV1().Events(s.Namespace).List(context.Background(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=StatefulSet,involvedObject.name=" + set})
	if err != nil {
		t.Fatal(err)
	}
	events := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return !strings.HasPrefix(e.Source.Component, "drydock-") })
	slices.SortFunc(events, func(a, b corev1.Event) int {
		order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		return order
	})
	return events
}

// expectOnlyFirstReplica waits until nothing is left of the other replicas, and checks that the claim of the first one
// is unchanged.
func expectOnlyFirstReplica(t *testing.T, s *stage.Stage, claim types.UID) {
	t.Helper()
	awaitPods(s, "shards-0")
	awaitClaims(s, "data-shards-0")
	if is := s.Claim("data-shards-0").UID; is != claim {
		t.Errorf("claim data-shards-0 has UID %s, had %s", is, claim)
	}
}

// awaitPods waits until exactly these pods exist.
func awaitPods(s *stage.Stage, names ...string) {
	s.Eventually(fmt.Sprintf("the pods are %v", names), func() string {
		list, err := s.Kube.CoreV1().Pods(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var are []string
		for _, pod := range list.Items {
			are = append(are, pod.Name)
		}
		return cmp.Diff(names, are)
	})
}

// awaitClaims waits until exactly these claims exist, with a volume each.
func awaitClaims(s *stage.Stage, names ...string) {
	s.Eventually(fmt.Sprintf("the claims are %v", names), func() string {
		list, err := s.Kube.CoreV1().PersistentVolumeClaims(s.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var are []string
		for _, claim := range list.Items {
			are = append(are, claim.Name)
		}
		if volumes := len(s.Volumes()); volumes != len(names) {
			return fmt.Sprintf("there are %d volumes, and claims %v", volumes, are)
		}
		return cmp.Diff(names, are)
	})
}

// expectMetrics reads the metrics like a Prometheus, and checks those of three successful ordinals.
func expectMetrics(t *testing.T, address string) {
	t.Helper()
	page := metricsPage(t, address)
	t.Logf("the metrics page about cleanups:\n%s", linesWith(page, "drydock_cleanup_"))
	if n := sumOf(t, page, "drydock_cleanup_finished_total", `drydock_result="succeeded"`); n != 3 {
		t.Errorf("%v ordinals were cleaned up, says the metrics page", n)
	}
	if n := sumOf(t, page, "drydock_cleanup_duration_seconds_count", ""); n != 3 {
		t.Errorf("%v durations are on the metrics page", n)
	}
}

func metricsPage(t *testing.T, address string) string {
	t.Helper()
	page, err := stage.MetricsPage(address)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// linesWith returns the lines that have the word.
func linesWith(text, word string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.Contains(line, word) }), "\n")
}

// sumOf adds up the metric's series with the label.
func sumOf(t *testing.T, page, metric, label string) float64 {
	t.Helper()
	sum, err := stage.SumOf(page, metric, label)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// expectFresh checks that the second and the third replica have started with new claims and new shards.
func expectFresh(t *testing.T, s *stage.Stage, before map[string]string, claims []types.UID) {
	t.Helper()
	for ordinal, now := range claimUIDs(t, s, "shards", 3) {
		if known := now == claims[ordinal]; known != (ordinal == 0) {
			t.Errorf("claim data-shards-%d has UID %s, had %s", ordinal, now, claims[ordinal])
		}
	}
	for ordinal := 1; ordinal < 3; ordinal++ {
		has := shardsOf(t, s, ordinal)
		if len(has) != 8 {
			t.Errorf("shards-%d has %d shards, want the 8 that a replica makes on an empty claim", ordinal, len(has))
		}
		for shard := range has {
			if before[shard] != "" {
				t.Errorf("shards-%d has a shard of before: %s", ordinal, shard)
			}
		}
	}
}

// TestFailedCleanupKeepsData: the set reports the failure, and a fixed template completes the cleanup. It is not
// parallel, because the process takes its settings from the test's environment.
// Invariants: I8.
func TestFailedCleanupKeepsData(t *testing.T) {
	t.Setenv("DRYDOCK_CLEANUP_TRIES", "2")
	t.Setenv("DRYDOCK_CLEANUP_BACKOFF", "1s")
	s := stage.New(t)
	s.CreateSet(cleaned(2, "echo looking for another place; echo there is no other place; exit 1"))
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	doc := awaitCleanup(s, "web", api.Failed, api.CleanupFailed)
	output := []string{"looking for another place", "there is no other place"}
	if !containsAll(doc.Message, output) {
		t.Errorf("the record says %q, want the last output of the container", doc.Message)
	}
	awaitPods(s, "web-0")
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	expectWarning(t, s, output)
	t.Logf("kubectl describe:\n%s", s.Kubectl(t, "", "-n", s.Namespace, "describe", "statefulset", "web"))

	s.Annotate("web", map[string]string{api.CleanupTemplateAnnotation: cleanerTemplate("rm -r /data/filled /data/small"),
		api.RetryAnnotation: "now"})
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
	awaitPods(s, "web-0")
	awaitClaims(s, "data-web-0")
	if _, there := s.Set("web").Annotations[api.RetryAnnotation]; there {
		t.Error("the retry was not taken")
	}
}

// cleaned returns the stage's workload. Its replicas end one by one, and the script cleans them up.
func cleaned(replicas int32, script string) *appsv1.StatefulSet {
	set := stage.Workload("64Mi")
	set.Spec.Replicas, set.Spec.PodManagementPolicy = ptr.To(replicas), appsv1.OrderedReadyPodManagement
	set.Annotations[api.CleanupTemplateAnnotation] = cleanerTemplate(script)
	return set
}

func cleanerTemplate(script string) string {
	return fmt.Sprintf(`metadata:
  labels:
    app: web-cleanup
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: clean
      image: %s
      command: [sh, -c, %q]
      volumeMounts:
        - name: data
          mountPath: /data
`, stage.WorkloadImage, script)
}

// containsAll reports whether the text contains every word.
func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// expectWarning checks that the set has a Warning CleanupFailed with every word.
func expectWarning(t *testing.T, s *stage.Stage, words []string) {
	t.Helper()
	events := story(t, s, "web")
	if !slices.ContainsFunc(events, func(e corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && e.Reason == string(api.CleanupFailed) && containsAll(e.Message, words)
	}) {
		t.Errorf("no Warning %s mentions %q: %v", api.CleanupFailed, words, events)
	}
}

// TestCleanupBeforeSetIsDeleted: a deleted set is cleaned up, the highest ordinal first, and is gone when nothing is
// left.
func TestCleanupBeforeSetIsDeleted(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(3, "rm -r /data/filled /data/small && sync && sleep 1")
	set.Annotations[api.CleanupOnDeleteAnnotation] = "true"
	s.CreateSet(set)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 3)
	s.Eventually("the set is held", func() string {
		if !slices.Contains(s.Set("web").Finalizers, api.CleanupFinalizer) {
			return "it is not"
		}
		return ""
	})
	s.DeleteSet("web", metav1.DeletePropagationBackground)
	for ordinal := range 3 {
		if claim := s.Claim(fmt.Sprintf("data-web-%d", ordinal)); claim != nil && claim.DeletionTimestamp == nil {
			t.Errorf("the set is gone, claim %s is not", claim.Name)
		}
	}
	awaitPods(s)
	awaitClaims(s)
	if diff := cmp.Diff(oneByOne(2, 1, 0), steps(t, s, "web")); diff != "" {
		t.Errorf("the Events have another order: %s", diff)
	}
}

// TestStoppedCleanupHasNotSucceeded: if the container exits with 0 on its stop signal, the kubelet reports its pod as
// succeeded. Whatever has stopped it, the claim stays with its data.
// Invariants: I1.
func TestStoppedCleanupHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "trap 'exit 0' TERM; while :; do sleep 1 & wait; done")
	set.Annotations[api.CleanupOnScaleUpAnnotation] = string(api.OnScaleUpCancel)
	s.CreateSet(set)
	before, claims := s.Data(t), claimUIDs(t, s, "web", 2)
	address := stage.FreeAddress(t)
	drydock(t, s, "--tick", "2s", "--listen", address)
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)

	first := awaitCleaner(s, "")
	s.Eventually("the metrics page counts it as running", func() string {
		page := metricsPage(t, address)
		running, pending := sumOf(t, page, "drydock_cleanup_ordinals", `drydock_state="running"`), sumOf(t, page,
			"drydock_cleanup_ordinals", `drydock_state="pending"`)
		if running != 1 || pending != 0 {
			return linesWith(page, "drydock_cleanup_")
		}
		return ""
	})
	s.Kubectl(t, "", "-n", s.Namespace, "delete", "pod", "web-1", "--wait=false")
	awaitCleaner(s, first) // it is created again
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Fatalf("the claims have UIDs %v, had %v", now, claims)
	}
	s.Scale("web", 2) // this stops it, too
	s.AwaitReady(t)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	if after := s.Data(t); !slices.Equal(after.Sums, before.Sums) {
		t.Errorf("the data is %v, was %v", after.Sums, before.Sums)
	}
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
	s.ExpectNothingLeft(t)
}

// TestCleanupOfFullEmptyDirHasNotSucceeded: the script fills its emptyDir beyond the limit. The kubelet ends the pod, whose container exits
// with 0 on the signal, and reports that it succeeded. No condition of the pod tells of the end. TestCleanupMovesEveryShard is the twin
// whose claims go.
// Invariants: I1.
func TestCleanupOfFullEmptyDirHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "trap 'exit 0' TERM; head -c 8388608 /dev/zero >/scratch/x; while :; do sleep 1 & wait; done")
	set.Annotations[api.CleanupTemplateAnnotation] += `        - name: scratch
          mountPath: /scratch
  volumes:
    - name: scratch
      emptyDir: {sizeLimit: 1Mi}
`
	s.CreateSet(set)
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	expectClaimsKept(t, s, claims, "was ended by its kubelet: Evicted", "EmptyDir")
}

// TestCleanupOnNodeThatShutsDownHasNotSucceeded plays the graceful shutdown of a node: the pod gets the condition of the kubelet, and then
// its container the stop signal, on which it exits with 0. The kubelet reports that the pod succeeded, and does not delete it.
// Invariants: I1.
func TestCleanupOnNodeThatShutsDownHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(cleaned(2, "trap 'exit 0' TERM; while :; do sleep 1 & wait; done"))
	claims := claimUIDs(t, s, "web", 2)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	awaitCleaner(s, "")
	s.Kubectl(t, "", "-n", s.Namespace, "patch", "pod", "web-1", "--subresource=status", "--type=strategic", "-p", `{"status": {"conditions": [
		{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
		"message": "Pod was terminated in response to imminent node shutdown."}]}}`)
	s.Terminate("web-1")
	expectClaimsKept(t, s, claims, "TerminationByKubelet", "imminent node shutdown")
}

// awaitWarning waits for a Warning of Drydock on set web whose message has the words, and returns the message.
func awaitWarning(t *testing.T, s *stage.Stage, words ...string) (message string) {
	t.Helper()
	s.Eventually(fmt.Sprintf("a Warning mentions %q", words), func() string {
		events := story(t, s, "web")
		for _, e := range events {
			if e.Type == corev1.EventTypeWarning && containsAll(e.Message, words) {
				message = e.Message
				return ""
			}
		}
		return fmt.Sprintf("the record is %+v, after %d Events", s.Cleanup("web"), len(events))
	})
	return message
}

// expectClaimsKept waits until a try of ordinal 1 has failed for a reason with the words, aborts the cleanup, and expects the claims. On a
// busy node a container may need longer than its grace period, and is killed. Such a try does not count.
func expectClaimsKept(t *testing.T, s *stage.Stage, claims []types.UID, words ...string) {
	t.Helper()
	awaitWarning(t, s, words...)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("the claims have UIDs %v, had %v", now, claims)
	}
	s.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
	awaitCleanup(s, "web", api.Failed, api.Aborted)
	if now := claimUIDs(t, s, "web", 2); !slices.Equal(now, claims) {
		t.Errorf("after the abort, the claims have UIDs %v, had %v", now, claims)
	}
}

// TestCleanupWithoutItsSuccessMessageHasNotSucceeded: a cleanup pod that exits with 0 and does not write the message of its annotation has
// failed, and is created again. The next one writes the message, and the claim goes.
func TestCleanupWithoutItsSuccessMessageHasNotSucceeded(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := cleaned(2, "[ ! -e /data/tried ] || echo all moved >/dev/termination-log; touch /data/tried")
	set.Annotations[api.CleanupTemplateAnnotation] = strings.Replace(set.Annotations[api.CleanupTemplateAnnotation], "metadata:\n",
		"metadata:\n  annotations:\n    "+api.SuccessMessageAnnotation+": all moved\n", 1)
	s.CreateSet(set)
	drydock(t, s, "--tick", "2s")
	awaitAccounted(s, "web", 2)
	s.Scale("web", 1)
	awaitCleanup(s, "web", api.Succeeded, api.CleanupCompleted)
	awaitWarning(t, s, "has not written \"all moved\"", api.SuccessMessageAnnotation)
	s.Eventually("the claim is deleted", func() string {
		if claim := s.Claim("data-web-1"); claim != nil {
			return "it exists"
		}
		return ""
	})
}

// awaitCleaner waits until another cleanup pod of ordinal 1 than the known one runs, and returns its UID.
func awaitCleaner(s *stage.Stage, known types.UID) types.UID {
	var uid types.UID
	s.Eventually("a cleanup pod runs", func() string {
		pod, err := s.Kube.CoreV1().Pods(s.Namespace).Get(context.Background(), "web-1", metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case pod.Labels[api.OperationLabel] == "" || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil ||
			pod.UID == known:
			return string(pod.Status.Phase)
		}
		uid = pod.UID
		return ""
	})
	return uid
}

package cleanuppod

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// The set of these tests, web, has one replica and had more before. Its claims data-web-1 and higher are left behind. Its cleanup is
// operation build.ID.

// check compares the decisions on the situations with the golden file of the test.
func check(t *testing.T, situations map[string]Input) {
	t.Helper()
	file := golden.Open(t)
	for _, situation := range slices.Sorted(maps.Keys(situations)) {
		t.Run(situation, func(t *testing.T) {
			in := situations[situation]
			file.Entry(t, situation, render(in, guarded(t, in)))
		})
	}
}

// guarded returns the decision. It checks the rules for every decision, and that the decision changes nothing observed.
func guarded(t *testing.T, in Input) plan.Plan {
	t.Helper()
	before := encode(in)
	p := build.Guard(t, api.CleanupPod, build.World(), func() plan.Plan { return Decide(in) }, objectsOf(in)...)
	if after := encode(in); after != before {
		t.Errorf("the decision changed what was observed, from\n%s\nto\n%s", before, after)
	}
	return p
}

// render returns the golden entry of a decision: the observed objects, and the plan.
func render(in Input, p plan.Plan) string {
	var b strings.Builder
	if in.Set != nil {
		fmt.Fprintf(&b, "set: replicas %d", statefulset.Replicas(in.Set))
		if in.Set.DeletionTimestamp != nil {
			b.WriteString(", deleted")
		}
		b.WriteString("\n")
		if record, err := api.LoadCleanup(in.Set); err == nil && record != nil {
			fmt.Fprintf(&b, "has: %s\n", build.Words(record))
		}
	}
	for _, c := range in.Claims {
		fmt.Fprintf(&b, "claim %s\n", c.Name)
	}
	for _, pod := range in.Pods {
		fmt.Fprintf(&b, "pod %s: %s\n", pod.Name, pod.Status.Phase)
	}
	return b.String() + build.Plan(p, build.World(), objectsOf(in)...)
}

func encode(in Input) string {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func objectsOf(in Input) []metav1.Object {
	var all []metav1.Object
	if in.Set != nil {
		all = append(all, in.Set)
	}
	for _, c := range in.Claims {
		all = append(all, c)
	}
	for _, p := range in.Pods {
		all = append(all, p)
	}
	return all
}

// settings returns round numbers, each with a different value.
func settings() api.Settings {
	s := build.Settings()
	s.CleanupTries, s.CleanupBackoff, s.CleanupTimeout, s.CleanupPods = 3, 10*time.Second, 25*time.Hour, 2
	return s
}

// on returns the input for the observed objects.
func on(objects ...metav1.Object) Input {
	w := build.World(objects...)
	return Input{Now: build.Now, Name: "web", Set: w.Set, Claims: w.Claims, Pods: w.Pods, Kills: build.NoKills(w.Pods...),
		Settings: settings()}
}

// with returns the changed input.
func (in Input) with(change func(*Input)) Input {
	change(&in)
	return in
}

func rejected(in Input) Input {
	return in.with(func(in *Input) { in.Rejected = "pods is forbidden" })
}

const template = `{"spec":{"containers":[{"name":"drain","image":"registry.example/drain:1"}]}}`

// web returns a set of one replica with a cleanup pod template. A record has to be the last option.
func web(options ...build.Option) *appsv1.StatefulSet {
	return build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"),
		build.Annotation(api.CleanupTemplateAnnotation, template)}, append(options, build.Edit(orderAll))...)...)
}

// orderAll orders the removal of all pods that the set does not request, unless the set has a ledger.
func orderAll(set *appsv1.StatefulSet) {
	if _, has := set.Annotations[api.LedgerAnnotation]; !has {
		ledger(&api.Removal{Span: api.Span{End: api.NoEnd}, Order: 1})(set)
	}
}

// ledger writes the ledger of web with the order.
func ledger(removing *api.Removal) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		l := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 9, Complete: true, Generation: set.Generation, Orders: 1,
			Removing: removing}
		build.Annotation(api.LedgerAnnotation, l.Encode())(set)
	})
}

// withCleanup stores the record of a cleanup on the set, with the set's own digest, identity and order.
func withCleanup(phase api.Phase, options ...func(*api.Cleanup)) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		record := &api.Cleanup{
			Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup, Phase: phase, Request: cleanup.Digest(set),
				Attempt: 1, Set: api.SetRef{Name: set.Name, UID: set.UID}, Started: metav1.NewTime(build.Now.Add(-time.Minute))},
			Order: 1,
		}
		for _, option := range options {
			option(record)
		}
		build.Annotation(api.CleanupAnnotation, record.Encode())(set)
	})
}

func cleaning(options ...func(*api.Cleanup)) build.Option {
	return withCleanup(api.Cleaning, options...)
}

// settledRecord stores the record of a set without a cleanup. All ordinals below end are accounted for.
func settledRecord(end int, options ...func(*api.Cleanup)) build.Option {
	return withCleanup(api.Succeeded, append([]func(*api.Cleanup){func(s *api.Cleanup) {
		s.Reason, s.Message, s.Span = api.CleanupReady, "the claims of removed replicas will be cleaned up", &api.Span{End: end}
	}}, options...)...)
}

// failedCleanup stores the record of a cleanup that failed a minute ago.
func failedCleanup(options ...func(*api.Cleanup)) build.Option {
	return withCleanup(api.Failed, append([]func(*api.Cleanup){func(s *api.Cleanup) {
		s.Reason, s.FailedAt, s.Span = api.CleanupFailed, api.Cleaning, &api.Span{End: 1}
		s.Finished = operation.Moment(build.Now.Add(-time.Minute))
	}}, options...)...)
}

// entry adds an entry for the ordinal to the record.
func entry(n int, reason api.Reason, options ...func(*api.OrdinalStatus)) func(*api.Cleanup) {
	e := api.OrdinalStatus{Ordinal: n, Reason: reason, Message: "said before"}
	for _, option := range options {
		option(&e)
	}
	return func(s *api.Cleanup) { s.Ordinals = append(s.Ordinals, e) }
}

func givenUp(e *api.OrdinalStatus) { e.GivenUp = true }

func tries(n int) func(*api.OrdinalStatus) { return func(e *api.OrdinalStatus) { e.Tries = n } }

func ofPod(uid string) func(*api.OrdinalStatus) {
	return func(e *api.OrdinalStatus) { e.Pod = types.UID(uid) }
}

func next(in time.Duration) func(*api.OrdinalStatus) {
	return func(e *api.OrdinalStatus) { e.NextTry = operation.Moment(build.Now.Add(in)) }
}

func due(in time.Duration) func(*api.OrdinalStatus) {
	return func(e *api.OrdinalStatus) { e.Deadline = operation.Moment(build.Now.Add(in)) }
}

func digest(text string) func(*api.Cleanup) { return func(s *api.Cleanup) { s.Request = text } }

func ofOrder(n int) func(*api.Cleanup) { return func(s *api.Cleanup) { s.Order = n } }

// usedClaim returns a claim that a replica of web has used.
func usedClaim(name string, options ...build.Option) *corev1.PersistentVolumeClaim {
	return build.Claim(name, "64Mi", append([]build.Option{build.Annotation(api.ReplicaOfAnnotation, "uid-web")}, options...)...)
}

// replica returns a pod of web with its claim data.
func replica(n int, options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", n, "data"), options...)
}

// cleaner returns the running cleanup pod of an ordinal of web on the claims. It was created a minute ago.
func cleaner(n int, claims []string, options ...build.Option) *corev1.Pod {
	var of []*corev1.PersistentVolumeClaim
	for _, c := range claims {
		of = append(of, build.Claim(c, "64Mi"))
	}
	set := web()
	words, problem := cleanup.Template(set)
	if problem != nil {
		panic(problem.Message)
	}
	pod := resources.MakeCleanupPod(set, words, build.ID, n, of)
	pod.UID, pod.ResourceVersion = types.UID("uid-cleaner-"+pod.Name), "rv-"+pod.Name
	pod.CreationTimestamp = metav1.NewTime(build.Now.Add(-time.Minute))
	pod.Status.Phase = corev1.PodRunning
	return build.With(pod, options...)
}

// cleanupPod returns the cleanup pod of an ordinal on its claim data.
func cleanupPod(n int, options ...build.Option) *corev1.Pod {
	return cleaner(n, []string{fmt.Sprintf("data-web-%d", n)}, options...)
}

// withLink changes the pod's link.
func withLink(change func(*api.Link)) build.Option {
	return func(o metav1.Object) {
		link, err := api.LoadLink(o)
		if err != nil {
			panic(err)
		}
		change(link)
		build.LinkOf(*link)(o)
	}
}

// failing adds a container that was restarted after failures, with the output of its last run.
func failing(restarts int32, words string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "drain", RestartCount: restarts,
			State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: words}}}}
	})
}

var (
	succeeded = build.Edit(func(p *corev1.Pod) {
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodSucceeded, []corev1.ContainerStatus{terminated("drain", 0, time.Minute)}
	})
	failed   = build.InPhase(corev1.PodFailed)
	pending  = build.InPhase(corev1.PodPending)
	parallel = build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	cancels  = build.Annotation(api.CleanupOnScaleUpAnnotation, "cancel")
	onDelete = build.Annotation(api.CleanupOnDeleteAnnotation, "true")
	retry    = build.Annotation(api.RetryAnnotation, "")
	abort    = build.Annotation(api.AbortAnnotation, "")
	optOut   = build.Label(api.ManagedLabel, "")
	held     = build.Finalizers("first", api.CleanupFinalizer, "last")
)

// deletedOptions are the options of a set that is being deleted and has our finalizer.
func deletedOptions(options ...build.Option) []build.Option {
	return append([]build.Option{onDelete, held, build.Label(api.FinalizerLabel, api.FinalizerForCleanup), build.Deleting()}, options...)
}

func deletedWeb(options ...build.Option) *appsv1.StatefulSet {
	return web(deletedOptions(options...)...)
}

// endedSince sets the deletion time to a time before now.
func endedSince(ago time.Duration) build.Option {
	return func(o metav1.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: build.Now.Add(-ago)}) }
}

// finished sets how long ago the cleanup ended.
func finished(ago time.Duration) func(*api.Cleanup) {
	return func(s *api.Cleanup) { s.Finished = operation.Moment(build.Now.Add(-ago)) }
}

package cleanuppod

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

// inputs is how many random inputs Decide is tried on.
const inputs = 2000

// generator makes random situations. The calm ones are realistic, and most others never occur.
type generator struct {
	*rand.Rand
	calm bool
}

func (c generator) in(n int) bool { return c.IntN(n) == 0 }

func one[T any](c generator, of ...T) T { return of[c.IntN(len(of))] }

// maybe returns each of the options with a chance of 1 in n.
func (c generator) maybe(n int, options ...build.Option) []build.Option {
	if c.calm {
		n *= 5
	}
	return slices.DeleteFunc(options, func(build.Option) bool { return !c.in(n) })
}

func (c generator) reason() api.Reason {
	return one(c, api.CleanupFailed, api.CleanupTried, api.NameTaken, api.ClaimBusy, api.ClaimMissing, api.MemberEnding,
		api.ScaleUpWaits, api.NeverUsed, api.ClaimUnbound)
}

func (c generator) document() build.Option {
	var options []func(*api.Cleanup)
	for n := range 7 {
		if c.in(4) {
			var of []func(*api.OrdinalStatus)
			for _, o := range []func(*api.OrdinalStatus){tries(c.IntN(4)), ofPod(one(c, "uid-x", fmt.Sprintf("uid-cleaner-web-%d", n))),
				next(one(c, -time.Second, time.Minute)), due(one(c, -time.Second, time.Minute))} {
				if c.in(2) {
					of = append(of, o)
				}
			}
			options = append(options, entry(n, c.reason(), of...))
		}
	}
	if c.in(5) {
		options = append(options, digest("older"))
	}
	if c.in(5) {
		options = append(options, ofOrder(c.IntN(4)))
	}
	if c.in(12) {
		options = append(options, func(s *api.Cleanup) { s.Set.UID = "uid-2" })
	}
	if c.in(12) {
		options = append(options, func(s *api.Cleanup) { s.Operation = "000000000000" })
	}
	if c.in(2) {
		options = append(options, func(s *api.Cleanup) { s.Span = &api.Span{Start: c.IntN(2), End: c.IntN(5)} })
	}
	if c.calm {
		options = nil
	}
	phase := one(c, api.Cleaning, api.Cleaning, api.Cleaning, api.Cleaning, api.Succeeded, api.Failed, api.Refused)
	if phase.Terminal() && !c.in(10) {
		options = append(options, finished(one(c, 0, time.Minute, 2*time.Hour)))
	}
	return withCleanup(phase, options...)
}

func (c generator) set() *appsv1.StatefulSet {
	options := []build.Option{build.Replicas(int32(c.IntN(4)))}
	options = append(options, c.maybe(3, build.Template("logs", "1Mi", "fixed"), parallel, cancels, onDelete)...)
	options = append(options, c.maybe(8, retry, abort, optOut, startingAt(c.IntN(3)),
		build.Annotation(api.CleanupTemplateAnnotation, one(c, "", "{}", "{", template+" ")))...)
	options = append(options, c.maybe(20, build.Status(build.Operation(one(c, api.Moving, api.Succeeded))),
		build.WithSleep(build.Sleep(one(c, api.Asleep, api.Succeeded))),
		build.Annotation(api.StatusAnnotation, "{"), build.WhenScaled("Delete"))...)
	if c.in(3) {
		options = append(options, build.Label(api.FinalizerLabel, api.FinalizerForCleanup),
			build.Finalizers(one(c, []string{api.CleanupFinalizer},
				[]string{"foregroundDeletion", api.CleanupFinalizer}, []string{"orphan", api.CleanupFinalizer}, []string{api.CleanupFinalizer,
					"a"}, []string{"a"})...))
	}
	if c.in(3) {
		options = append(options, endedSince(one(c, 0, time.Minute, time.Hour)))
	}
	if !c.in(8) {
		options = append(options, c.document())
	}
	return web(append(options, c.maybe(50, build.Annotation(api.CleanupAnnotation, "{"))...)...)
}

func startingAt(n int) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: int32(n)} })
}

func (c generator) claim(name string) *corev1.PersistentVolumeClaim {
	options := c.maybe(8, build.Deleting(), build.UID("uid-2"), build.BoundTo(""), build.Annotation(api.ReplicaOfAnnotation, "uid-2"))
	if c.in(10) {
		return build.Claim(name, "64Mi", options...)
	}
	return usedClaim(name, options...)
}

func (c generator) status() build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = one(c, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed,
			corev1.PodUnknown)
		if p.Status.Phase == corev1.PodSucceeded {
			ago := one(c, 0, time.Minute, time.Minute, time.Minute, time.Hour)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{terminated("drain", 0, ago)}
			return
		}
		for range c.IntN(3) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				one(c, waits("drain", "ErrImagePull"), running("drain", int32(c.IntN(5))), terminated("drain", int32(c.IntN(2)), time.Minute)))
		}
	})
}

func (c generator) pod(n int, templates []string) *corev1.Pod {
	deletedOptions := c.maybe(5, endedSince(one(c, 0, time.Hour)), build.Finalizers(), build.Finalizers("a", api.CleanupFinalizer))
	var claims []string
	for _, t := range templates {
		if !c.in(10) {
			claims = append(claims, fmt.Sprintf("%s-web-%d", t, n))
		}
	}
	switch c.IntN(6) {
	case 0:
		return build.With(
			build.PodOf("web", n, templates...),
			append(deletedOptions, c.maybe(6, build.ControlledBy("StatefulSet", "other"))...)...)
	case 1:
		return build.Pod(fmt.Sprintf("web-%d", n), claims, append(deletedOptions, c.status())...)
	}
	forged := c.maybe(8, withLink(func(l *api.Link) { l.Operation = "other" }), withLink(func(l *api.Link) { l.Set.UID = "uid-2" }),
		withLink(func(l *api.Link) { l.Namespace = "payroll" }),
		withLink(func(l *api.Link) { l.Set.Name = "other" }), withLink(func(l *api.Link) { l.Role = api.RoleMover }), withLink(
			func(l *api.Link) { l.Claims = nil }),
		withLink(func(l *api.Link) {
			l.Claims = map[string]types.UID{"data-web-0": "uid-data-web-0", "data-web-1": "uid-2"}
		}))
	options := append([]build.Option{build.Age(one(c, time.Minute, time.Hour, 48*time.Hour)), c.status()},
		append(deletedOptions, forged...)...)
	pod := cleaner(n, claims, options...)
	return build.With(pod, c.maybe(20, build.Label(api.OperationLabel, "other"))...)
}

func (c generator) input() Input {
	in := on()
	if !c.in(30) {
		in.Set = c.set()
	}
	templates := []string{"data"}
	if in.Set != nil && len(in.Set.Spec.VolumeClaimTemplates) == 2 {
		templates = append(templates, "logs")
	}
	for n := range 7 {
		for _, t := range templates {
			if !c.in(3) {
				in.Claims = append(in.Claims, c.claim(fmt.Sprintf("%s-web-%d", t, n)))
			}
		}
		if c.in(2) {
			in.Pods = append(in.Pods, c.pod(n, templates))
		}
	}
	if c.in(10) {
		in.Pods = append(in.Pods, build.Pod("backup", []string{fmt.Sprintf("data-web-%d", c.IntN(7))}, c.status()))
	}
	in.Kills = build.NoKills(in.Pods...)
	for uid := range in.Kills.Events {
		if strings.HasPrefix(string(uid), "uid-cleaner-") && c.in(5) {
			in.Kills.Events[uid] = podend.Told{Kill: evicted()}
		}
	}
	if c.in(3) {
		in = revision(in, one(c, build.ControlledBy("StatefulSet", "web"), build.ControlledBy("StatefulSet", "other"), build.UID("x")))
	}
	if c.in(10) {
		in = rejected(in)
		in.NamespaceEnds = c.in(3)
	}
	if c.in(20) {
		in.PodRejected = "violates PodSecurity"
	}
	in.Retry = c.in(10)
	return in
}

// forRandomInputs calls the test with each random input.
func forRandomInputs(t *testing.T, each func(t *testing.T, in Input)) {
	t.Helper()
	from := seed.Of(t)
	for i := range inputs {
		in := generator{rand.New(rand.NewPCG(from, uint64(i))), i%2 == 0}.input() // no secret depends on it
		each(t, in)
		if t.Failed() {
			t.Fatalf("input %d: %s", i, encode(in))
		}
	}
}

func whole(p plan.Plan) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestClaimIsDeletedOnlyAfterItsCleanup holds in every situation, and with any forged link.
// Invariants: I9.
func TestClaimIsDeletedOnlyAfterItsCleanup(t *testing.T) {
	deletions := 0
	forRandomInputs(t, func(t *testing.T, in Input) {
		before := encode(in)
		p := Decide(in)
		if again := Decide(in); whole(again) != whole(p) {
			t.Errorf("the same input leads to another plan:\n%s\n%s", whole(p), whole(again))
		}
		if encode(in) != before {
			t.Errorf("the decision changed its input")
		}
		for _, a := range p.Actions {
			if problem := in.wrong(a); problem != "" {
				t.Errorf("%s: %s", a, problem)
			}
			if a.Verb == plan.VerbDelete && a.Resource == plan.Claims {
				deletions++
			}
		}
	})
	// Of 2,000 inputs, 33 lead to a deletion on average, and between 22 and 53 did with 60 seeds.
	if deletions < inputs/400 {
		t.Errorf("only %d claims were deleted: the inputs do not exercise deletions", deletions)
	}
}

// wrong returns the reason why the action is not allowed, or "".
func (in Input) wrong(a plan.Action) string {
	var seen metav1.Object
	for _, o := range objectsOf(in) {
		if o.GetName() == a.Name && o.GetNamespace() == a.Namespace {
			seen = o
		}
	}
	switch {
	case a.Verb == plan.VerbEvent:
		return ""
	case a.Verb == plan.VerbCreate:
		return in.wrongPod(a, seen)
	case seen == nil:
		return "it was not observed"
	case a.Verb == plan.VerbPatch && a.Ops[0] != plan.Op{Op: "replace", Path: "/metadata/resourceVersion", Value: seen.GetResourceVersion()}:
		return "the patch has no precondition"
	case a.Verb == plan.VerbPatch:
		return ""
	case a.Verb != plan.VerbDelete || a.Orphan:
		return "no such action is allowed"
	case a.UID == "" || a.ResourceVersion == "" || a.UID != seen.GetUID() || a.ResourceVersion != seen.GetResourceVersion():
		return fmt.Sprintf("precondition %q %q", a.UID, a.ResourceVersion)
	case a.Resource == plan.Pods:
		pod, held := seen.(*corev1.Pod), in.Set != nil && in.Set.DeletionTimestamp != nil && cleanup.HasFinalizer(in.Set)
		if cleanup.LinkOf(pod, in.Name) == nil && !(held && statefulset.IsPodOf(pod, in.Set)) {
			return "the pod belongs to another owner"
		}
		return ""
	case a.Resource != plan.Claims || in.Set == nil:
		return "it must not be deleted"
	}
	return in.uncleaned(seen.(*corev1.PersistentVolumeClaim))
}

// uncleaned returns the reason why the claim must not be deleted, or "".
func (in Input) uncleaned(claim *corev1.PersistentVolumeClaim) string {
	record, err := api.LoadCleanup(in.Set)
	if err != nil || !record.Active() {
		return "no cleanup runs"
	}
	_, n, _ := statefulset.ParseClaimName(in.Set, claim.Name)
	for _, p := range in.Pods {
		link, err := api.LoadLink(p)
		if err != nil || link == nil || in.Kills.Events[p.UID].Kill != nil || p.Status.Phase != corev1.PodSucceeded ||
			p.Name != statefulset.PodName(in.Set, n) || !p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Equal(&aMinuteAgo) {
			continue
		}
		if link.Role == api.RoleCleaner && link.Operation == record.Operation && link.Set == (api.SetRef{Name: in.Set.Name, UID: in.Set.UID}) &&
			link.Namespace == in.Set.Namespace && link.Claims[claim.Name] == claim.UID {
			return ""
		}
	}
	return "no cleanup pod has succeeded on it"
}

// aMinuteAgo is the only end of a generated pod that is neither too new nor too old to be judged.
var aMinuteAgo = metav1.NewTime(build.Now.Add(-time.Minute))

// wrongPod returns the reason why the created pod is not allowed, or "".
func (in Input) wrongPod(a plan.Action, seen metav1.Object) string {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || in.Set == nil || seen != nil {
		return "it is not a pod, has no set, or exists already"
	}
	record, _ := api.LoadCleanup(in.Set) // nil fails below
	link := cleanup.LinkOf(pod, in.Name)
	n, replica := statefulset.ParsePodName(in.Set, pod.Name)
	span := statefulset.Span(in.Set)
	switch {
	case link == nil || record == nil || link.Operation != record.Operation || link.Set.UID != in.Set.UID:
		return "its link is wrong"
	case !replica || n < span.Start || n < span.End && in.Set.DeletionTimestamp == nil:
		return "the set wants the replica"
	case statefulset.IsPodOf(pod, in.Set):
		return "the set would take it for a replica"
	case !slices.Contains(pod.Finalizers, api.CleanupFinalizer):
		return "nothing holds the name"
	case len(link.Claims) != len(in.Set.Spec.VolumeClaimTemplates):
		return "it does not mount all claims"
	}
	for _, c := range in.Claims {
		if uid, of := link.Claims[c.Name]; of && (uid != c.UID || !cleanup.UsedByReplica(c, in.Set) || c.DeletionTimestamp != nil ||
			!statefulset.Mounts(pod, c.Name)) {
			return "it mounts the wrong claim " + c.Name
		}
	}
	return ""
}

// TestDecisionsReachSteadyState: if no other client acts, no work is left after a few steps, and the record does not grow.
// Invariants: I7.
func TestDecisionsReachSteadyState(t *testing.T) {
	forRandomInputs(t, func(t *testing.T, in Input) {
		var trail []string
		for range 150 {
			p := Decide(in)
			if p.Kind != plan.KindDo || !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb != plan.VerbEvent }) {
				return
			}
			trail = append(trail, p.String())
			for _, a := range p.Actions {
				in = in.after(a)
			}
			in.Now = in.Now.Add(50 * time.Millisecond)
			in.Retry, in.Rejected = false, "" // both count once
			if in.Set != nil && len(in.Set.Annotations[api.CleanupAnnotation]) > 16<<10 {
				t.Errorf("the record grows: %s", in.Set.Annotations[api.CleanupAnnotation])
			}
		}
		t.Errorf("no steady state:\n%s", strings.Join(trail[len(trail)-12:], "\n"))
	})
}

// after returns the situation after the action, the garbage collector and claim protection have taken effect.
func (in Input) after(a plan.Action) Input {
	in.Claims, in.Pods = slices.Clone(in.Claims), slices.Clone(in.Pods)
	switch {
	case a.Verb == plan.VerbCreate:
		pod := a.Object.(*corev1.Pod).DeepCopy()
		pod.UID, pod.ResourceVersion, pod.CreationTimestamp, pod.Status.Phase = "uid-new", "rv-new", metav1.NewTime(in.Now), corev1.PodPending
		in.Pods = append(in.Pods, pod)
	case a.Resource == plan.StatefulSets:
		in.Set = build.After(in.Set, a)
		if in.Set.DeletionTimestamp != nil && len(in.Set.Finalizers) == 0 {
			in.Set = nil
		}
	default:
		for i, c := range in.Claims {
			if c.Name == a.Name {
				in.Claims[i] = change(c, a, in.Now)
			}
		}
		for i, p := range in.Pods {
			if p.Name == a.Name {
				in.Pods[i] = change(p, a, in.Now)
			}
		}
	}
	in.Pods = slices.DeleteFunc(in.Pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil && len(p.Finalizers) == 0 })
	in.Claims = slices.DeleteFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.DeletionTimestamp != nil && !slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return statefulset.Mounts(p, c.Name) })
	})
	return in
}

func change[T metav1.Object](object T, a plan.Action, now time.Time) T {
	if a.Verb == plan.VerbPatch {
		return build.After(object, a)
	}
	other := build.After(object)
	other.SetDeletionTimestamp(&metav1.Time{Time: now})
	return other
}

package walks

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/functions/idletimeout"
	"drydock.dev/functions/scalehooks"
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// members is the count that the user wants during the whole walk.
const members = 3

// world is a set with its Scaler, in memory.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	set     *appsv1.StatefulSet
	scaler  *v1alpha1.Scaler // nil if it was deleted
	scalers int              // how many were created
	jobs    []*batchv1.Job
	records map[string]idletimeout.Record // by name
	crashes bool
	story   []string
}

func newWorld(t *testing.T, seed uint64, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: build.Now, records: map[string]idletimeout.Record{}, crashes: true}
	w.set = build.Set("web", build.Replicas(members), build.WhenScaled(whenScaled), build.IdleTimeout("1h"))
	w.set.Status.Replicas, w.set.Status.ReadyReplicas = members, members
	w.noteActivity()
	w.createScaler()
	return w
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%s %s", w.now.Sub(build.Now), fmt.Sprintf(format, args...)))
}

// change applies the options to a copy of the set, because observations share it.
func (w *world) change(options ...build.Option) { w.set = build.With(w.set.DeepCopy(), options...) }

func (w *world) noteActivity() {
	w.change(build.Annotation(api.LastActivityAnnotation, w.now.UTC().Format(time.RFC3339)))
}

func (w *world) createScaler() {
	w.scalers++
	hook := &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{
		Raw: []byte(`{"spec":{"containers":[{"name":"hook","image":"example.com/hook"}]}}`)}}}
	w.scaler = &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "pilot", ResourceVersion: "1", Generation: 1,
		UID: types.UID(fmt.Sprintf("uid-pilot-%d", w.scalers)), CreationTimestamp: *operation.Moment(w.now)},
		Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: ptr.To[int32](members), Hooks: v1alpha1.ScalerHooks{Pre: hook}}}
}

// idleTimeout takes a step of idle-timeout. It reports whether it had work.
func (w *world) idleTimeout() bool {
	in := idletimeout.Input{Now: w.now, Name: "web", Group: idle.Group{idle.MemberOf(w.set)}, Settings: build.SleepSettings(),
		Records: map[string][]idletimeout.Record{"web": slices.Collect(maps.Values(w.records))},
		Scalers: map[string]*v1alpha1.Scaler{}, Unrecorded: map[string]*v1alpha1.Scaler{}}
	switch record := operation.Of(w.set).Scale; {
	case w.scaler == nil:
	case record != nil && record.Scaler.UID == w.scaler.UID:
		in.Scalers["web"] = w.scaler
	case record == nil && w.scaler.Spec.Paused && w.hasSleptWithScaler():
		in.Unrecorded["web"] = w.scaler
	}
	return w.carryOut(api.IdleTimeout, idletimeout.Decide(in))
}

func (w *world) hasSleptWithScaler() bool {
	for _, r := range w.records {
		if record, err := api.LoadSleepRecord(r.Revision); err == nil && !record.Sleep.Started.Before(&w.scaler.CreationTimestamp) {
			return true
		}
	}
	return false
}

// scaleHooks takes a step of scale-hooks. It reports whether it had work.
func (w *world) scaleHooks() bool {
	in := scalehooks.Input{Now: w.now, Namespace: build.Namespace, Name: "web", Set: w.set, Jobs: w.jobs, Settings: build.Settings(),
		HookPods: build.EndedPods(w.now, w.jobs...), Kills: build.NoKills(build.EndedPods(w.now, w.jobs...)...)}
	if w.scaler != nil {
		in.Scalers = []*v1alpha1.Scaler{w.scaler}
	}
	return w.carryOut(api.ScaleHooks, scalehooks.Decide(in))
}

// carryOut applies the writes of a plan, or some of them before a crash.
func (w *world) carryOut(by api.Function, p plan.Plan) bool {
	if p.Kind != plan.KindDo {
		return false
	}
	done := len(p.Actions)
	if w.crashes && done > 0 && w.random.IntN(6) == 0 {
		done = w.random.IntN(done)
	}
	for _, a := range p.Actions[:done] {
		w.write(a)
	}
	records := operation.Of(w.set)
	w.tell("%s: %s, %d of %d writes; %d replicas, whenScaled %s, %s, %s, paused %t", by, p.Reason, done, len(p.Actions),
		statefulset.Replicas(w.set), statefulset.WhenScaled(w.set), headOf(records.Sleep.Active(), records.Sleep),
		headOf(records.Scale != nil, records.Scale), w.scaler != nil && w.scaler.Spec.Paused)
	return true
}

func headOf(known bool, record operation.Record) string {
	if !known {
		return "no record"
	}
	head := record.Head()
	return fmt.Sprintf("%s %s %s", head.Kind, head.Phase, head.Reason)
}

func (w *world) write(a plan.Action) {
	of, isStatus := a.Resource.Subresource()
	switch {
	case a.Verb == plan.VerbEvent:
	case a.Resource == plan.StatefulSets:
		before := statefulset.Replicas(w.set)
		if w.set = patched(w.t, w.set, a); statefulset.Replicas(w.set) != before {
			w.set.Generation++
		}
	case a.Resource == plan.Scalers || isStatus != "" && of == plan.Scalers:
		w.scaler = patched(w.t, w.scaler, a)
	case a.Resource == plan.Jobs && a.Verb == plan.VerbCreate:
		job := a.Object.(*batchv1.Job).DeepCopy()
		job.UID, job.ResourceVersion = types.UID("uid-"+job.Name), "1"
		w.jobs = append(w.jobs, job)
	case a.Resource == plan.Jobs:
		w.jobs = slices.DeleteFunc(slices.Clone(w.jobs), func(j *batchv1.Job) bool { return j.Name == a.Name })
	case a.Verb == plan.VerbCreate:
		revision := a.Object.(*appsv1.ControllerRevision).DeepCopy()
		revision.UID, revision.ResourceVersion = "uid-record", "1"
		link, err := api.LoadLink(revision)
		if err != nil {
			w.t.Fatal(err)
		}
		w.records[revision.Name] = idletimeout.Record{Revision: revision, Link: link}
	default:
		delete(w.records, a.Name)
	}
}

// patched returns the object after the patch, as the API server would apply it.
func patched[T any](t *testing.T, object T, a plan.Action) T {
	t.Helper()
	var next T
	patch, err := jsonpatch.DecodePatch(encoded(t, a.Ops))
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(encoded(t, object))
	if err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal(after, &next); err != nil {
		t.Fatal(err)
	}
	return next
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pauseOwner consents to a sleep, as it does for a set without an owner.
func (w *world) pauseOwner() {
	if sleep := operation.Of(w.set).Sleep; sleep.Active() && sleep.Phase == api.Planned {
		w.change(build.WithSleep(operation.Enter(sleep, api.Stopping, w.now, time.Hour)))
		w.tell("pause-owner consents")
	}
}

// controller lets the StatefulSet controller observe the set, and start or stop its pods at once if it is fast. It returns which claims it
// deletes, or "".
func (w *world) controller(fast bool) string {
	wanted, there := statefulset.Replicas(w.set), w.set.Status.Replicas
	w.set = w.set.DeepCopy()
	w.set.Status.ObservedGeneration = w.set.Generation
	if wanted < there && statefulset.WhenScaled(w.set) == appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		return fmt.Sprintf("the claims of members %d to %d are deleted", wanted, there-1)
	}
	if fast {
		w.set.Status.Replicas, w.set.Status.ReadyReplicas = wanted, wanted
	}
	return ""
}

// hooks ends the Jobs of hooks.
func (w *world) hooks(ending build.Option) {
	for i, job := range w.jobs {
		if len(job.Status.Conditions) == 0 {
			w.jobs = slices.Clone(w.jobs)
			w.jobs[i] = build.With(job.DeepCopy(), ending)
			w.tell("a hook ends")
		}
	}
}

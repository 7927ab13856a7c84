package sift

import (
	"flag"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/functions/backup"
	"drydock.dev/functions/cleanuppod"
	"drydock.dev/functions/detectresize"
	"drydock.dev/functions/idletimeout"
	"drydock.dev/functions/pauseowner"
	"drydock.dev/functions/restore"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

var worldSeed = flag.Uint64("seed", 0, "the seed of the only world to look at; 0 looks at many")

const (
	worlds      = 3000
	podTemplate = `{"spec":{"containers":[{"name":"drain","image":"registry.example/drain:1"}]}}`
)

// Whatever a function would do, an event of an object or the sweep wakes it for.
func TestWhateverAFunctionWouldDoConcernsIt(t *testing.T) {
	acts := map[api.Function]int{}
	var lists build.Lists // of the world that is looked at
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) { lists.ServeHTTP(to, r) }))
	defer server.Close()
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), nil, slog.New(slog.DiscardHandler))
	for seed := uint64(1); seed <= worlds; seed++ {
		if *worldSeed != 0 {
			seed = *worldSeed
		}
		w := newWorld(seed)
		lists = w.lists()
		concerned := w.concerned(t, f)
		decisions := w.decisions()
		for function, p := range decisions {
			if p.Kind != plan.KindDo {
				continue
			}
			acts[function]++
			if function == api.PauseOwner && w.sleepEnds() {
				continue
			}
			if !slices.Contains(concerned, function) && !doneByOther(decisions, concerned, p.Reason) {
				t.Errorf("seed %d: %s would act, and only %v are concerned: %s\nset %v %v", seed, function, concerned, p, w.set.Labels, w.set.Annotations)
			}
		}
		if *worldSeed != 0 {
			return
		}
	}
	for _, function := range []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout, api.CleanupPod} {
		if acts[function] < worlds/50 {
			t.Errorf("%s acts in %d of %d worlds: they are too far from real ones to show anything", function, acts[function], worlds)
		}
	}
}

// doneByOther reports whether a function that is concerned does the same. Backup and restore share the members of a resize: each of them
// ends one that is overdue, or that was not written by Drydock.
func doneByOther(decisions map[api.Function]plan.Plan, concerned []api.Function, reason api.Reason) bool {
	return slices.ContainsFunc(concerned, func(f api.Function) bool {
		return (reason == api.DeadlineExceeded || reason == api.StatusInvalid) && decisions[f].Kind == plan.KindDo && decisions[f].Reason == reason
	})
}

// randomWorld is set web with what belongs to it.
type randomWorld struct {
	*rand.Rand
	set      *appsv1.StatefulSet
	claims   []*corev1.PersistentVolumeClaim
	volumes  []*corev1.PersistentVolume
	pods     []*corev1.Pod
	journals []*appsv1.ControllerRevision
	// accounted: the record of the cleanup says truly that nothing is left behind, and that the template can be read.
	accounted bool
}

// sleepEnds reports whether a sleep has begun that idle-timeout ends again, as the set is needed: its owner is not asked any more.
func (w *randomWorld) sleepEnds() bool {
	m := idle.MemberOf(w.set)
	return m.Sleep.Active() && m.Sleep.Phase == api.Planned && (m.Alone(build.Now).Awake || operation.Aborted(w.set) || !statefulset.Managed(w.set))
}

func any1[T any](w *randomWorld, of ...T) T { return of[w.IntN(len(of))] }

// in reports true once in n times.
func (w *randomWorld) in(n int) bool { return w.IntN(n) == 0 }

func newWorld(seed uint64) *randomWorld {
	w := &randomWorld{Rand: rand.New(rand.NewPCG(seed, 7))}
	replicas := int32(w.IntN(3))
	options := []build.Option{build.Template("data", any1(w, "64Mi", "128Mi"), build.Class), build.Replicas(replicas)}
	for _, option := range w.wishes() {
		if w.in(5) {
			options = append(options, option)
		}
	}
	for _, option := range []build.Option{build.Label(api.ManagedLabel, ""), build.Deleting(), build.UID("uid-2"), build.Unseen(),
		build.Counting(int32(w.IntN(3)), 0), build.Annotation(api.StatusAnnotation, "{"), build.Annotation(api.SleepAnnotation, "{")} {
		if w.in(15) {
			options = append(options, option)
		}
	}
	for _, record := range []build.Option{w.resize(), w.sleep(), w.cleanup()} {
		if w.in(3) {
			options = append(options, record)
		}
	}
	w.set = build.Set("web", options...)
	if w.accounted {
		w.set.Status.ObservedGeneration = w.set.Generation // a record is about a generation that the controller has seen
	}
	if w.accounted && w.set.Annotations[api.CleanupTemplateAnnotation] != "" {
		w.set.Annotations[api.CleanupTemplateAnnotation] = podTemplate
	}
	for n, name := range []string{"data-web-0", "data-web-1", "data-web-2"} {
		if w.in(4) || w.accounted && n >= int(replicas) {
			continue
		}
		claim := build.Claim(name, any1(w, "64Mi", "128Mi"), build.Annotation(api.ReplicaOfAnnotation, any1(w, "", "uid-web")))
		if w.accounted {
			claim.Annotations[api.ReplicaOfAnnotation] = "uid-web"
		}
		if w.in(4) {
			claim.Spec.VolumeAttributesClassName = ptr.To(any1(w, "gold", "silver"))
			if w.in(2) {
				claim.Status.CurrentVolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
			}
		}
		w.claims = append(w.claims, claim)
		w.volumes = append(w.volumes, build.VolumeOf(claim))
	}
	if w.in(3) {
		w.volumes = append(w.volumes, w.retired())
	}
	for n := range int(replicas) {
		if !w.in(4) {
			pod := build.PodOf("web", n, "data")
			if w.in(3) {
				build.Held(n)(pod)
				if w.in(2) {
					build.Stopped()(pod)
				}
			}
			w.pods = append(w.pods, pod)
		}
	}
	return w
}

// wishes are what users write on a set.
func (w *randomWorld) wishes() []build.Option {
	return []build.Option{
		build.Resize(any1(w, "data=128Mi", "data=64Mi", "data=64Mi%gold", "auto", "garbage", "logs=1Gi", "serviceName=db", "serviceName=web", "-data", "tmp/labels/a=b")), build.Annotation(api.RetryAnnotation, ""),
		build.Annotation(api.AbortAnnotation, ""), build.Annotation(api.RollbackAnnotation, build.ID),
		build.IdleTimeout(any1(w, "1h", "1h", "garbage")), build.IdleTimeout("1h"), build.Active(any1(w, time.Minute, 2*time.Hour)), build.Active(2 * time.Hour),
		build.Paused(), build.AwakeFor(any1(w, time.Minute, -time.Minute)), build.Annotation(api.WakeReplicasAnnotation, "2"),
		build.Annotation(api.CleanupTemplateAnnotation, any1(w, podTemplate, "{")),
		build.Annotation(api.CleanupOnDeleteAnnotation, "true"), func(o metav1.Object) {
			build.Finalizers(api.CleanupFinalizer)(o)
			build.Label(api.FinalizerLabel, api.FinalizerForCleanup)(o)
		},
	}
}

// resize is the record of a resize or a rollback, with its journal now and then.
func (w *randomWorld) resize() build.Option {
	kind := any1(w, api.KindResize, api.KindRollback)
	status := build.Operation(any1(w, api.Phases[kind]...), build.Due(any1(w, time.Minute, -time.Minute)), func(s *api.Resize) {
		s.FailedAt = any1(w, "", api.Expanding, api.Moving)
		s.Reason = any1(w, api.QuotaExceeded, api.RequestInvalid)
		s.Strategy = any1(w, api.StrategyWhole, api.StrategyRolling)
		if w.in(2) {
			build.ReplacesSet(s)
		}
		if kind == api.KindResize && w.in(2) {
			s.Expansions = []api.Expansion{{Claim: "data-web-2", UID: "uid-data-web-2", Template: "data", Volume: "pv-data-web-2",
				From: *resource.NewQuantity(64<<20, resource.BinarySI), To: *resource.NewQuantity(128<<20, resource.BinarySI), Done: w.in(2)}}
			if w.in(2) {
				s.Expansions[0].Attributes = ptr.To("gold")
			}
		}
		inPlace := kind == api.KindResize && w.in(3)
		for _, claim := range []string{"data-web-0", "data-web-1"} {
			if w.in(2) {
				phases := memberPhases
				if inPlace {
					phases = growingPhases
				}
				build.Members(any1(w, phases...), claim)(s)
			}
		}
		if inPlace {
			for _, move := range s.Moves() {
				move.InPlace, move.NewVolume, move.Digest, move.Moved = true, "", "", w.in(4)
			}
		}
	})
	if status.Phase.Terminal() {
		status.Deadline = nil
	}
	if kind == api.KindRollback {
		build.Rollback("ba9876543210")(status)
	}
	if w.in(2) {
		w.journals = append(w.journals, build.Journal(status))
	}
	return build.Status(status)
}

var memberPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass, api.MemberSwapping,
	api.MemberStarting, api.MemberMoved, api.MemberKept}

// growingPhases are those of members whose claims grow while they are stopped.
var growingPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberGrowing, api.MemberStarting,
	api.MemberMoved, api.MemberKept}

func (w *randomWorld) cleanup() build.Option {
	return tells(any1(w, api.Phases[api.KindCleanup]...), finished(any1(w, time.Minute, time.Hour)), func(s *api.Cleanup) {
		s.Operation = "c0ffee012345"
		switch {
		case s.Phase == api.Failed || s.Phase == api.Refused:
			s.Request = "older"
		case w.in(2):
			s.Generation = 4 // the set has changed since
		case s.Phase == api.Succeeded:
			w.accounted = true
		}
	})
}

func (w *randomWorld) sleep() build.Option {
	sleep := build.Sleep(any1(w, api.Phases[api.KindSleep]...), build.Because(any1(w, "idle", "paused", "asked")), build.SleepDue(any1(w, time.Minute, -time.Minute)))
	if w.in(2) {
		build.Slept(any1(w, time.Second, time.Hour))(sleep)
	}
	if sleep.Phase.Terminal() {
		build.Ended(any1(w, api.Aborted, api.StartedByOthers, api.Awake), any1(w, time.Minute, time.Hour))(sleep)
	}
	if w.in(2) {
		w.journals = append(w.journals, resources.MakeSleepRecord(build.Set("web"), sleep))
	}
	return build.WithSleep(sleep)
}

// retired is an old volume that an operation has left behind.
func (w *randomWorld) retired() *corev1.PersistentVolume {
	until := build.Now.Add(any1(w, -time.Minute, time.Minute)).Format(time.RFC3339)
	return build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Retained(api.RoleRetired, "data-web-0"),
		build.Annotation(api.RetainedUntilAnnotation, until), build.Released())
}

func (w *randomWorld) observed() *world.Observed {
	o := build.World(w.set)
	o.Claims, o.Pods = w.claims, w.pods
	for _, v := range w.volumes {
		o.Volumes[v.Name] = v
	}
	for _, claim := range w.claims {
		o.ClaimManifests[claim.Name] = build.Raw(claim)
	}
	for _, r := range w.journals {
		if link := api.LoadRecord(r); link != nil && link.Role == api.RoleJournal {
			o.Journals = append(o.Journals, r)
		}
	}
	return o
}

// decisions are what each function would do when it looked at the set.
func (w *randomWorld) decisions() map[api.Function]plan.Plan {
	settings, group := build.SleepSettings(), idle.Group{idle.MemberOf(w.set)}
	sleeps, roles := map[string][]idletimeout.Record{}, []api.Role(nil)
	for _, r := range w.journals {
		link := api.LoadRecord(r)
		roles = append(roles, link.Role)
		if link.Role == api.RoleSleep {
			sleeps["web"] = append(sleeps["web"], idletimeout.Record{Revision: r, Link: link})
		}
	}
	classes := &world.Cluster{Classes: map[string]*storagev1.StorageClass{build.Class: {}}}
	return map[api.Function]plan.Plan{
		api.DetectResize: detectresize.Decide(detectresize.Input{Input: resize.Input{Observed: w.observed(), Settings: settings, Cluster: classes}}),
		api.PauseOwner:   pauseowner.Decide(pauseowner.Input{Observed: w.observed(), Settings: settings}),
		api.Backup:       backup.Decide(backup.Input{Observed: w.observed(), Settings: settings, Progress: map[int]moverreport.Progress{}}),
		api.Restore:      restore.Decide(restore.Input{Observed: w.observed(), Namespace: build.Namespace, Settings: settings, Waited: time.Minute}),
		api.IdleTimeout:  idletimeout.Decide(idletimeout.Input{Now: build.Now, Name: "web", Group: group, Settings: settings, Records: sleeps}),
		api.CleanupPod: cleanuppod.Decide(cleanuppod.Input{Now: build.Now, Name: "web", Set: w.set, Claims: w.claims, Pods: w.pods,
			Settings: settings, Records: roles}),
	}
}

// lists are the objects as the API server has them.
func (w *randomWorld) lists() build.Lists {
	lists := build.Plurals()
	lists["statefulsets"] = []metav1.Object{w.set}
	for _, o := range w.claims {
		lists["persistentvolumeclaims"] = append(lists["persistentvolumeclaims"], o)
	}
	for _, o := range w.volumes {
		lists["persistentvolumes"] = append(lists["persistentvolumes"], o)
	}
	for _, o := range w.pods {
		if o.Labels[api.OperationLabel] != "" {
			lists["pods"] = append(lists["pods"], o)
		}
	}
	for _, o := range w.journals {
		lists["controllerrevisions"] = append(lists["controllerrevisions"], o)
	}
	return lists
}

// concerned returns the functions that the sweep wakes, or the event of a change of the set.
func (w *randomWorld) concerned(t *testing.T, f *Function) []api.Function {
	t.Helper()
	found := &findings{tick: "1", looks: map[events.Ref]look{}, active: map[string]bool{}, given: map[string]bool{}}
	if err := f.sweepAll(t.Context(), build.Now, found); err != nil {
		t.Fatal(err)
	}
	change := events.SourceUpdate
	if !statefulset.Managed(w.set) {
		change = events.SourceDelete // it has lost its label
	}
	l, err := Sift(changeOf(t, change, "StatefulSet", w.set), build.Now, build.SleepSettings().SleepRetry)
	if err != nil {
		t.Fatal(err)
	}
	all := l.concerns
	for _, look := range found.looks {
		all = append(all, look.concerns...)
	}
	return all
}

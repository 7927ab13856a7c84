package sift

import (
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
	"drydock.dev/functions/scale"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

const (
	worlds      = 3000
	podTemplate = `{"spec":{"containers":[{"name":"drain","image":"registry.example/drain:1"}]}}`
)

// TestEveryFunctionThatWouldActIsWoken checks random worlds: if a function would act on a set, an event of the set or the sweep wakes it.
func TestEveryFunctionThatWouldActIsWoken(t *testing.T) {
	acts := map[api.Function]int{}
	var lists build.Lists // of the current world
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) { lists.ServeHTTP(to, r) }))
	defer server.Close()
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), nil, slog.New(slog.DiscardHandler))
	for n := range seed.Next(t, worlds) {
		w := newWorld(n)
		lists = w.lists()
		concerned := w.concerned(t, f)
		decisions := w.decisions()
		for function, p := range decisions {
			if p.Kind != plan.KindDo {
				continue
			}
			acts[function]++
			if function == api.PauseOwner && w.sleepEnds() || function == api.ScaleFunction && w.stopOfActiveSleep() {
				continue
			}
			if !slices.Contains(concerned, function) && !doneByOther(decisions, concerned, p.Reason) {
				t.Errorf("seed %d: %s would act, but only %v are woken: %s\nset %v %v", n, function, concerned, p, w.set.Labels,
					w.set.Annotations)
			}
		}
	}
	for _, function := range []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout, api.CleanupPod,
		api.ScaleFunction} {
		if acts[function] < worlds/50 {
			t.Errorf("%s acts in only %d of %d worlds; make the random worlds more realistic", function, acts[function], worlds)
		}
	}
}

// TestForgedRecordWakesFunctionThatEndsIt: the phases in a record decide which function an event wakes, also if a user wrote the record.
// The set has opted out, so the sweep does not find it.
func TestForgedRecordWakesFunctionThatEndsIt(t *testing.T) {
	ended := func(record *api.Resize) bool {
		w := &randomWorld{set: build.Set("web", build.Status(record), build.Label(api.ManagedLabel, ""))}
		woken, err := Sift(changeEvent(t, events.SourceDelete, "StatefulSet", w.set), build.Now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		decisions := w.decisions()
		return slices.ContainsFunc(woken.functions, func(f api.Function) bool { return decisions[f].Reason == api.StatusInvalid })
	}
	for _, phase := range append(slices.Clone(memberPhases), api.MemberGrowing) {
		if !ended(build.Operation(api.Moving, build.Members(phase, "data-web-0"))) {
			t.Errorf("a member is in phase %s: no woken function ends the operation", phase)
		}
	}
	if ended(build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0"), build.DerivedID)) {
		t.Error("a genuine operation that has no journal yet is ended")
	}
}

// doneByOther reports whether a woken function would do the same. Backup and restore share the members of a resize: each of them ends a
// member that is overdue, or that Drydock has not written.
func doneByOther(decisions map[api.Function]plan.Plan, concerned []api.Function, reason api.Reason) bool {
	return slices.ContainsFunc(concerned, func(f api.Function) bool {
		return (reason == api.DeadlineExceeded || reason == api.StatusInvalid) && decisions[f].Kind == plan.KindDo &&
			decisions[f].Reason == reason
	})
}

// randomWorld is StatefulSet web with its claims, volumes, pods and journals.
type randomWorld struct {
	*rand.Rand
	set      *appsv1.StatefulSet
	claims   []*corev1.PersistentVolumeClaim
	volumes  []*corev1.PersistentVolume
	pods     []*corev1.Pod
	journals []*appsv1.ControllerRevision
	// nothingLeftover is true if the cleanup record states correctly that no claim is left over, and the template is valid.
	nothingLeftover bool
}

// sleepEnds reports whether idle-timeout ends a planned sleep because the set is needed. pause-owner is then not needed.
func (w *randomWorld) sleepEnds() bool {
	m := idle.MemberOf(w.set)
	return m.Sleep.Active() && m.Sleep.Phase == api.Planned && (m.VerdictAlone(build.Now).Awake || operation.Aborted(w.set) ||
		!statefulset.Managed(w.set))
}

func oneOf[T any](w *randomWorld, of ...T) T { return of[w.IntN(len(of))] }

// oneIn returns true once in n times on average.
func (w *randomWorld) oneIn(n int) bool { return w.IntN(n) == 0 }

func newWorld(seed uint64) *randomWorld {
	w := &randomWorld{Rand: rand.New(rand.NewPCG(seed, 7))}
	replicas := int32(w.IntN(3))
	options := []build.Option{build.Template("data", oneOf(w, "64Mi", "128Mi"), build.Class), build.Replicas(replicas)}
	for _, option := range w.userRequests() {
		if w.oneIn(5) {
			options = append(options, option)
		}
	}
	for _, option := range []build.Option{build.Label(api.ManagedLabel, ""), build.Deleting(), build.UID("uid-2"), build.NotObserved(),
		build.ReplicaCounts(int32(w.IntN(3)), 0), build.Annotation(api.StatusAnnotation, "{"), build.Annotation(api.SleepAnnotation, "{")} {
		if w.oneIn(15) {
			options = append(options, option)
		}
	}
	for _, record := range []build.Option{w.resize(), w.sleep(), w.cleanup(), w.stop()} {
		if w.oneIn(3) {
			options = append(options, record)
		}
	}
	w.set = build.Set("web", options...)
	if w.nothingLeftover {
		w.set.Status.ObservedGeneration = w.set.Generation // a record names a generation that the controller has observed
	}
	if w.nothingLeftover && w.set.Annotations[api.CleanupTemplateAnnotation] != "" {
		w.set.Annotations[api.CleanupTemplateAnnotation] = podTemplate
	}
	if w.nothingLeftover || w.oneIn(2) {
		build.Annotation(api.LedgerAnnotation, w.ledger().Encode())(w.set)
	}
	for n, name := range []string{"data-web-0", "data-web-1", "data-web-2"} {
		if w.oneIn(4) || w.nothingLeftover && n >= int(replicas) {
			continue
		}
		claim := build.Claim(name, oneOf(w, "64Mi", "128Mi"), build.Annotation(api.ReplicaOfAnnotation, oneOf(w, "", "uid-web")))
		if w.nothingLeftover {
			claim.Annotations[api.ReplicaOfAnnotation] = "uid-web"
		}
		if w.oneIn(4) {
			claim.Spec.VolumeAttributesClassName = ptr.To(oneOf(w, "gold", "silver"))
			if w.oneIn(2) {
				claim.Status.CurrentVolumeAttributesClassName = claim.Spec.VolumeAttributesClassName
			}
		}
		w.claims = append(w.claims, claim)
		w.volumes = append(w.volumes, build.VolumeOf(claim))
	}
	if w.oneIn(3) {
		w.volumes = append(w.volumes, w.retired())
	}
	for n := range int(replicas) {
		if !w.oneIn(4) {
			pod := build.PodOf("web", n, "data")
			if w.oneIn(3) {
				build.Held(n)(pod)
				if w.oneIn(2) {
					build.Stopped()(pod)
				}
			}
			w.pods = append(w.pods, pod)
		}
	}
	return w
}

// userRequests returns the labels and annotations that users write on a set.
func (w *randomWorld) userRequests() []build.Option {
	return []build.Option{
		build.Resize(oneOf(w, "data=128Mi", "data=64Mi", "data=64Mi%gold", "auto", "garbage", "logs=1Gi", "serviceName=db",
			"serviceName=web", "-data", "tmp/labels/a=b")), build.Annotation(api.RetryAnnotation, ""),
		build.Annotation(api.AbortAnnotation, ""), build.Annotation(api.RollbackAnnotation, build.ID),
		build.IdleTimeout(oneOf(w, "1h", "1h", "garbage")), build.IdleTimeout("1h"), build.LastActivity(oneOf(w, time.Minute, 2*time.Hour)),
		build.LastActivity(2 * time.Hour),
		build.Paused(), build.AwakeFor(oneOf(w, time.Minute, -time.Minute)), build.Annotation(api.WakeReplicasAnnotation, "2"),
		build.Annotation(api.CleanupTemplateAnnotation, oneOf(w, podTemplate, "{")),
		build.Annotation(api.CleanupOnDeleteAnnotation, "true"), func(o metav1.Object) {
			build.Finalizers(api.CleanupFinalizer)(o)
			build.Label(api.FinalizerLabel, api.FinalizerForCleanup)(o)
		},
	}
}

// ledger returns the ledger of the set, sometimes with an order or an earlier generation.
func (w *randomWorld) ledger() *api.Ledger {
	l := members.Next(w.set, members.Facts{})
	if !w.nothingLeftover && w.oneIn(2) {
		l.Count, l.Orders, l.Removing = 3, 1, &api.Removal{Span: api.Span{Start: l.Count, End: 3}, Order: 1}
		if l.Removing.Start >= 3 {
			l.Removing = nil
		}
	}
	if !w.nothingLeftover && w.oneIn(4) {
		l.Generation--
	}
	return l
}

// resize returns the record of a resize or a rollback, sometimes with its journal.
func (w *randomWorld) resize() build.Option {
	kind := oneOf(w, api.KindResize, api.KindRollback)
	status := build.Operation(oneOf(w, api.Phases[kind]...), build.Due(oneOf(w, time.Minute, -time.Minute)), func(s *api.Resize) {
		s.FailedAt = oneOf(w, "", api.Expanding, api.Moving)
		s.Reason = oneOf(w, api.QuotaExceeded, api.RequestInvalid)
		s.Strategy = oneOf(w, api.StrategyWhole, api.StrategyRolling)
		if w.oneIn(2) {
			build.ReplacesSet(s)
		}
		if kind == api.KindResize && w.oneIn(2) {
			s.Expansions = []api.Expansion{{Claim: "data-web-2", UID: "uid-data-web-2", Template: "data", Volume: "pv-data-web-2",
				From: *resource.NewQuantity(64<<20, resource.BinarySI), To: *resource.NewQuantity(128<<20, resource.BinarySI),
				Done: w.oneIn(2)}}
			if w.oneIn(2) {
				s.Expansions[0].Attributes = ptr.To("gold")
			}
		}
		inPlace := kind == api.KindResize && w.oneIn(3)
		for _, claim := range []string{"data-web-0", "data-web-1"} {
			if w.oneIn(2) {
				phases := memberPhases
				if inPlace {
					phases = growingPhases
				}
				build.Members(oneOf(w, phases...), claim)(s)
			}
		}
		if inPlace {
			for _, move := range s.Moves() {
				move.InPlace, move.NewVolume, move.Verified, move.Moved = true, "", false, w.oneIn(4)
			}
		}
	})
	if status.Phase.Terminal() {
		status.Deadline = nil
	}
	if kind == api.KindRollback {
		build.RollbackOf("ba9876543210")(status)
	}
	if w.oneIn(2) {
		w.journals = append(w.journals, build.Journal(status))
	}
	return build.Status(status)
}

var memberPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass,
	api.MemberSwapping,
	api.MemberStarting, api.MemberMoved, api.MemberKept}

// growingPhases are the phases of members whose claims grow while they are stopped.
var growingPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberGrowing,
	api.MemberStarting,
	api.MemberMoved, api.MemberKept}

func (w *randomWorld) cleanup() build.Option {
	return withCleanupRecord(oneOf(w, api.Phases[api.KindCleanup]...), finishedBefore(oneOf(w, time.Minute, time.Hour)),
		func(s *api.Cleanup) {
			s.Operation = "c0ffee012345"
			switch {
			case s.Phase == api.Failed || s.Phase == api.Refused:
				s.Request = "older"
			case w.oneIn(2):
				s.Span = nil // its pods were not seen yet
			case s.Phase == api.Succeeded:
				w.nothingLeftover = true
			}
		})
}

func (w *randomWorld) sleep() build.Option {
	sleep := build.Sleep(oneOf(w, api.Phases[api.KindSleep]...), build.SleepCause(oneOf(w, "idle", "paused", "asked")),
		build.SleepDue(oneOf(w, time.Minute, -time.Minute)))
	if w.oneIn(2) {
		build.AsleepFor(oneOf(w, time.Second, time.Hour))(sleep)
	}
	if sleep.Phase.Terminal() {
		build.SleepEnded(oneOf(w, api.Aborted, api.StartedByOthers, api.Awake), oneOf(w, time.Minute, time.Hour))(sleep)
	}
	return build.WithSleep(sleep)
}

// stop returns the Stop of the set's sleep, of another one, or of a paused Scaler. It may have its record, and the set may have lost it.
func (w *randomWorld) stop() build.Option {
	stop := build.Stop(build.StoppedFor(oneOf(w, time.Second, time.Hour)))
	switch w.IntN(4) {
	case 0:
		build.StoppedByScaler("5ca1e0012345")(stop)
	case 1:
		stop.Operation = "fedcba987654"
	}
	if w.oneIn(3) {
		build.StartedFor(time.Second)(stop)
	}
	if w.oneIn(3) {
		stop.Refused, stop.RefusedAt = "a quota", operation.Moment(build.Now.Add(-oneOf(w, time.Second, time.Hour)))
	}
	if w.oneIn(3) {
		build.FormerWhenScaled(oneOf(w, appsv1.DeletePersistentVolumeClaimRetentionPolicyType))(stop)
	}
	if w.oneIn(2) {
		w.journals = append(w.journals, resources.MakeStopRecord(build.Set("web"), stop))
	}
	if w.oneIn(3) {
		return func(metav1.Object) {}
	}
	return build.WithStop(stop)
}

// stopOfActiveSleep reports whether only the record of a stop is left, and its sleep is active. The sweep reports it when the sleep has
// ended.
func (w *randomWorld) stopOfActiveSleep() bool {
	sleep := operation.Of(w.set).Sleep
	return sleep.Active() && api.LoadStop(w.set) == nil && slices.ContainsFunc(w.journals, func(r *appsv1.ControllerRevision) bool {
		link := api.RevisionLink(r)
		return link.Role == api.RoleStop && link.Operation == sleep.Operation
	})
}

// retired returns an old volume that an operation has replaced.
func (w *randomWorld) retired() *corev1.PersistentVolume {
	until := build.Now.Add(oneOf(w, -time.Minute, time.Minute)).Format(time.RFC3339)
	return build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Retained(api.RoleOldVolume, "data-web-0"),
		build.Annotation(api.RetainedUntilAnnotation, until), build.Released())
}

func (w *randomWorld) observed() *world.Observed {
	o := build.World(w.set)
	o.Claims, o.Pods = w.claims, w.pods
	for _, v := range w.volumes {
		o.Volumes[v.Name] = v
	}
	for _, claim := range w.claims {
		o.ClaimManifests[claim.Name] = build.Untyped(claim)
	}
	for _, r := range w.journals {
		if link := api.RevisionLink(r); link != nil && link.Role == api.RoleJournal {
			o.Journals = append(o.Journals, r)
		}
	}
	return o
}

// decisions returns the decision of each function on the set.
func (w *randomWorld) decisions() map[api.Function]plan.Plan {
	settings, group := build.SleepSettings(), idle.Group{idle.MemberOf(w.set)}
	stops, roles := []*appsv1.ControllerRevision(nil), []api.Role(nil)
	for _, r := range w.journals {
		link := api.RevisionLink(r)
		roles = append(roles, link.Role)
		if link.Role == api.RoleStop {
			stops = append(stops, r)
		}
	}
	classes := &world.Cluster{Classes: map[string]*storagev1.StorageClass{build.Class: {}}}
	shared := moving.Input{Observed: w.observed(), Settings: settings}
	return map[api.Function]plan.Plan{
		api.DetectResize: detectresize.Decide(detectresize.Input{Input: resize.Input{Observed: w.observed(), Settings: settings,
			Cluster: classes}}),
		api.PauseOwner:  pauseowner.Decide(pauseowner.Input{Observed: w.observed(), Settings: settings}),
		api.Backup:      backup.Decide(backup.Input{Input: shared, Progress: map[int]moverreport.Progress{}}),
		api.Restore:     restore.Decide(restore.Input{Input: shared, Namespace: build.Namespace, Waited: time.Minute}),
		api.IdleTimeout: idletimeout.Decide(idletimeout.Input{Now: build.Now, Name: "web", Group: group, Settings: settings}),
		api.CleanupPod: cleanuppod.Decide(cleanuppod.Input{Now: build.Now, Name: "web", Set: w.set, Claims: w.claims, Pods: w.pods,
			Settings: settings, Journal: slices.Contains(roles, api.RoleJournal)}),
		api.ScaleFunction: scale.Decide(scale.Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: w.set,
			Settings: settings, Records: stops}),
	}
}

// lists returns the objects for the API server.
func (w *randomWorld) lists() build.Lists {
	lists := build.EmptyLists()
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

// concerned returns the functions that the sweep or an event of the set wakes.
func (w *randomWorld) concerned(t *testing.T, f *Function) []api.Function {
	t.Helper()
	found := newFindings(time.Unix(1, 0))
	if err := f.sweepAll(t.Context(), build.Now, found); err != nil {
		t.Fatal(err)
	}
	change := events.SourceUpdate
	if !statefulset.Managed(w.set) {
		change = events.SourceDelete // the watch reports a set without the label as deleted
	}
	l, err := Sift(changeEvent(t, change, "StatefulSet", w.set), build.Now, build.SleepSettings().SleepRetry)
	if err != nil {
		t.Fatal(err)
	}
	all := l.functions
	for _, look := range found.notices {
		all = append(all, look.functions...)
	}
	return all
}

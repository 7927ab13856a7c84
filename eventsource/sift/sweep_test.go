package sift

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// sentEvents collects the events of a sweep, as SET: FUNCTIONS.
type sentEvents struct {
	events     []string
	operations []any // that the events name
	fail       error
}

func (s *sentEvents) Send(_ context.Context, e event.Event) error {
	concerns, _ := e.Extensions()["concerns"].(string)
	s.events = append(s.events, e.Extensions()["name"].(string)+": "+concerns)
	s.operations = append(s.operations, e.Extensions()["operation"])
	return s.fail
}

// cluster holds the objects of the API server by plural name.
type cluster map[string][]metav1.Object

func sweep(t *testing.T, c cluster, to *sentEvents) error {
	t.Helper()
	lists := build.EmptyLists()
	maps.Copy(lists, c)
	return sweepLists(t, lists, to)
}

func sweepLists(t *testing.T, lists build.Lists, to *sentEvents) error {
	t.Helper()
	tick := event.New()
	tick.SetType(events.Tick)
	_, err := New(kube.NewClient(lists.Serve()), api.Settings{}, to, slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
	return err
}

// TestSweepNamesTheOperationOfTheRest: scale looks for the records of stops only if its event names an operation, also if the set has other
// work.
func TestSweepNamesTheOperationOfTheRest(t *testing.T) {
	stop := resources.MakeStopRecord(build.Set("web"), &api.Stop{Operation: build.SleepID, Kind: api.KindSleep,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Replicas: 3, StoppedAt: &metav1.Time{Time: build.Now}})
	type list = []metav1.Object
	for name, row := range map[string]struct {
		in   cluster
		want any
	}{
		"alone": {cluster{"statefulsets": list{build.Set("web")}, "controllerrevisions": list{stop}}, build.SleepID},
		"beside a request": {cluster{"statefulsets": list{build.Set("web", build.Template("data", "64Mi", "fixed"),
			build.Resize("data=128Mi"))}, "controllerrevisions": list{stop}}, build.SleepID},
		"no rest": {cluster{"statefulsets": list{build.Set("web", build.Template("data", "64Mi", "fixed"), build.Resize("data=128Mi"))}}, nil},
	} {
		to := &sentEvents{}
		if err := sweep(t, row.in, to); err != nil {
			t.Fatal(err)
		}
		if len(to.operations) != 1 || to.operations[0] != row.want {
			t.Errorf("%s: the events name %v, want %v", name, to.operations, row.want)
		}
	}
}

// TestSweepFindsUnfinishedWorkFromObjectsAlone: the sweep needs no event.
// Invariants: I3, I6, I7, I9.
func TestSweepFindsUnfinishedWorkFromObjectsAlone(t *testing.T) {
	type list = []metav1.Object
	data, auto := build.Template("data", "64Mi", "fixed"), build.Resize("auto")
	ruled := build.Annotation(api.GrowAnnotation, "data=max:1Gi")
	copying := build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0"))
	old := func(until time.Time) metav1.Object {
		return build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Retained(api.RoleOldVolume, "data-web-0"),
			build.Annotation(api.RetainedUntilAnnotation, until.UTC().Format(time.RFC3339)))
	}
	held := func() *corev1.Pod { return build.With(build.PodOf("web", 0, "data"), build.Held(0)) }
	journal := func() metav1.Object { return build.Journal(copying) }
	left := func(options ...build.Option) metav1.Object {
		return build.Volume("pv-left", build.Claim("data-web-0", "64Mi"),
			append([]build.Option{build.Retained(api.RoleSource, "data-web-0"), build.Released()}, options...)...)
	}
	releasedNow := build.Edit(func(v *corev1.PersistentVolume) { v.Status.LastPhaseTransitionTime = ptr.To(metav1.Now()) })
	for name, row := range map[string]struct {
		in   cluster
		want string
	}{
		"nothing": {cluster{}, ""},
		"a set without a request": {
			cluster{"statefulsets": list{build.Set("web", data)}, "persistentvolumeclaims": list{build.Claim("data-web-0", "1Mi")}}, ""},
		"a set that is not opted in": {
			cluster{"statefulsets": list{build.Set("web", data, build.Label(api.ManagedLabel, ""), build.Resize("data=1Gi"))}}, ""},
		"a request that differs from the template": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=1Gi"))}}, "web: detect-resize"},
		"a claim is smaller than its template": {
			cluster{"statefulsets": list{build.Set("web", data, auto)},
				"persistentvolumeclaims": list{build.Claim("data-web-7", "32Mi")}}, "web: detect-resize"},
		"a claim is smaller than the request, and the template is not": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=64Mi"))},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "32Mi")}}, "web: detect-resize"},
		"a claim is larger than the template of an operator, which is the request": {
			cluster{"statefulsets": list{build.Set("web", data, build.ControlledBy("Database", "main"),
				build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner))},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "128Mi")}}, "web: detect-resize"},
		"the claims meet the request": {
			cluster{"statefulsets": list{build.Set("web", data, auto)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi"), build.Claim("data-other-0", "1Mi")}}, ""},
		"a refusal that only a change of the set can resolve": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"),
				refusedFor(api.UnknownTemplate, time.Minute))}}, ""},
		"a recent refusal whose cause may have passed": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"),
				refusedFor(api.QuotaExceeded, time.Minute))}}, "web: detect-resize"},
		"a recent refusal of another request": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=64Mi"),
				build.Status(build.Operation(api.Refused, func(s *api.Resize) {
					s.Request, s.Reason = "data=1Ti", api.QuotaExceeded
				})))}}, ""},
		"a recent refusal on a sleeping set": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"), refusedFor(api.QuotaExceeded, time.Minute),
				build.WithSleep(build.Sleep(api.Asleep, build.SleepCause("paused"))), build.Paused(), build.Replicas(0))}}, ""},
		"two sets, and the claim of one is too small": {
			cluster{"statefulsets": list{build.Set("web", data, auto), build.Set("api", data, auto)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi"), build.Claim("data-api-0", "32Mi")}},
			"api: detect-resize"},
		"an active operation": {
			cluster{"statefulsets": list{build.Set("web", data, build.Replicas(0), build.Status(copying))},
				"controllerrevisions": list{journal()}}, "web: backup"},
		"a resize that is being reverted": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(build.Operation(api.Reverting)))},
				"controllerrevisions": list{journal()}}, "web: restore"},
		"a held pod of an active operation": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(copying))}, "controllerrevisions": list{journal()},
				"pods": list{held()}}, "web: backup restore"},
		"a held pod that no set and no journal names": {
			cluster{"statefulsets": list{build.Set("web", data)}, "pods": list{held()}}, "web: restore"},
		"a held pod of an operation that has ended": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(build.Operation(api.Failed)))}, "pods": list{held()}},
			"web: restore"},
		"a held pod whose set was deleted": {
			cluster{"pods": list{held()}}, "web: restore"},
		"a pod with the link of a held pod, without the finalizer": {
			cluster{"pods": list{build.With(held(), build.Finalizers())}}, ""},
		"a journal whose set was deleted": {
			cluster{"controllerrevisions": list{journal()}}, "web: restore backup pause-owner"},
		"the record of a stop that its set has lost, and the set requests a resize": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=128Mi"))},
				"controllerrevisions": list{resources.MakeStopRecord(build.Set("web"), &api.Stop{Operation: build.SleepID, Kind: api.KindSleep,
					Set: api.SetRef{Name: "web", UID: "uid-web"}, Replicas: 3, StoppedAt: &metav1.Time{Time: build.Now}})}},
			"web: detect-resize idle-timeout scale"},
		"a journal whose set was replaced, and the new set requests a resize": {
			cluster{"statefulsets": list{build.Set("web", data, build.UID("uid-2"), build.Resize("data=128Mi"))},
				"controllerrevisions": list{journal()}},
			"web: detect-resize restore backup pause-owner"},
		"an old volume whose retention has expired": {
			cluster{"persistentvolumes": list{old(time.Now().Add(-time.Minute))}}, "web: restore"},
		"an old volume whose retention has expired during an operation": {
			cluster{"statefulsets": list{build.Set("web", data, build.Status(copying))},
				"persistentvolumes": list{old(time.Now().Add(-time.Minute))}}, "web: backup restore"},
		"an old volume whose retention has expired, released for reuse by an administrator": {
			cluster{"persistentvolumes": list{withoutClaim(old(time.Now().Add(-time.Minute)))}}, ""},
		"an old volume within its retention": {
			cluster{"persistentvolumes": list{old(time.Now().Add(time.Minute))}}, ""},
		"a volume whose set and journal were deleted": {
			cluster{"persistentvolumes": list{left()}}, "web: restore"},
		"a volume that was just released": {
			cluster{"persistentvolumes": list{left(releasedNow)}}, ""},
		"a volume whose journal exists": {
			cluster{"persistentvolumes": list{left()}, "controllerrevisions": list{journal()}}, "web: restore backup pause-owner"},
		"a volume whose operation is named by a journal in another namespace": {
			cluster{"persistentvolumes": list{left()}, "controllerrevisions": list{build.Journal(copying, build.LinkOf(api.Link{
				Operation: build.ID, Role: api.RoleJournal, Namespace: "tenant", Set: api.SetRef{Name: "evil", UID: "uid-evil"}}),
				build.Edit(func(r *appsv1.ControllerRevision) { r.Namespace = "tenant" }))}},
			"evil: restore backup pause-owner, web: restore"},
		"a volume of an active operation": {
			cluster{"persistentvolumes": list{left()}, "statefulsets": list{build.Set("web", data, build.Status(copying))},
				"controllerrevisions": list{journal()}}, "web: backup"},
		"a set with a rule for growth": {
			cluster{"statefulsets": list{build.Set("web", data, ruled)}},
			"web: grow-volumes"},
		"a set whose namespace has default rules for growth": {
			cluster{"statefulsets": list{build.Set("web", data)}, "configmaps": list{growthRules(build.Namespace)}}, "web: grow-volumes"},
		"a set, and another namespace has default rules for growth": {
			cluster{"statefulsets": list{build.Set("web", data)}, "configmaps": list{growthRules("other")}}, ""},
		"a set that excludes itself from the rules of its namespace": {
			cluster{"statefulsets": list{build.Set("web", data, build.Annotation(api.GrowAnnotation, api.GrowOff))},
				"configmaps": list{growthRules(build.Namespace)}}, ""},
		"a set with a floor that its template has not": {
			cluster{"statefulsets": list{build.Set("web", data, build.GrowTo("data=96Mi", ""), ruled)}}, "web: detect-resize grow-volumes"},
		"a set with a floor that a claim has not": {
			cluster{"statefulsets": list{build.Set("web", data, build.GrowTo("data=64Mi", ""), ruled)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "32Mi")}}, "web: grow-volumes detect-resize"},
		"a set with a floor that is reached": {
			cluster{"statefulsets": list{build.Set("web", data, build.GrowTo("data=64Mi", ""), ruled)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi")}}, "web: grow-volumes"},
		"a set whose growth has failed": {
			cluster{"statefulsets": list{build.Set("web", data, build.GrowTo("data=96Mi", ""), ruled,
				build.Status(build.Operation(api.Failed, build.Growth("data=96Mi"))))}}, "web: grow-volumes"},
		"a set whose growth is refused": {
			cluster{"statefulsets": list{build.Set("web", data, build.GrowTo("data=96Mi", ""), ruled,
				build.Status(build.Operation(api.Refused, build.Growth("data=96Mi"))))}}, "web: detect-resize grow-volumes"},
		"a set that has grown beyond its request": {
			cluster{"statefulsets": list{build.Set("web", data, build.Resize("data=32Mi"), build.GrowTo("data=64Mi", "data=32Mi"), ruled)},
				"persistentvolumeclaims": list{build.Claim("data-web-0", "64Mi")}}, "web: grow-volumes"},
		"a set with a rule for growth during a resize": {
			cluster{"statefulsets": list{build.Set("web", data, ruled,
				build.Status(copying))}}, "web: backup"},
		"a revision by the StatefulSet controller with a journal's annotations": {
			cluster{"controllerrevisions": list{build.With(build.Journal(copying),
				build.Edit(func(r *appsv1.ControllerRevision) { r.Name = "evil-5c9f4d7b8" }))}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to := &sentEvents{}
			if err := sweep(t, row.in, to); err != nil {
				t.Fatal(err)
			}
			slices.Sort(to.events)
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("sends %q, want %q", got, row.want)
			}
		})
	}
}

func TestSweepSendsAllEventsAndReportsFailures(t *testing.T) {
	data := build.Template("data", "64Mi", "fixed")
	both := cluster{"statefulsets": {build.Set("a", data, build.Resize("data=1Gi")), build.Set("b", data, build.Resize("data=1Gi"))}}
	to := &sentEvents{fail: errors.New("the Broker is away")}
	if err := sweep(t, both, to); err == nil || len(to.events) != 2 {
		t.Errorf("sent %v, error %v", to.events, err)
	}
	for _, plural := range []string{"statefulsets", "controllerrevisions", "persistentvolumes"} {
		lists := build.EmptyLists()
		delete(lists, plural)
		if err := sweepLists(t, lists, &sentEvents{}); err == nil {
			t.Errorf("the list of %s fails, and the sweep returns no error", plural)
		}
	}
}

func withoutClaim(volume metav1.Object) metav1.Object {
	volume.(*corev1.PersistentVolume).Spec.ClaimRef = nil
	return volume
}

// growthRules returns the ConfigMap with the default rules for growth.
func growthRules(namespace string) metav1.Object {
	config := &corev1.ConfigMap{}
	config.Name, config.Namespace = api.GrowConfigMap, namespace
	return config
}

// TestClaimsAreComparedSoonAfterResize: a replica that joined during the resize is found by the next tick.
func TestClaimsAreComparedSoonAfterResize(t *testing.T) {
	set := build.Set("web", build.Resize("data=128Mi"), build.Status(build.Operation(api.Succeeded, endedBefore(claimPeriod-time.Second))))
	for i := range 20 { // none of these namespaces has to wait for its turn
		set.Namespace = fmt.Sprint("tenant-", i)
		if !claimsDue(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, PreviousSweep: build.Now.Add(-time.Minute)}) {
			t.Errorf("the claims of %s are not compared", set.Namespace)
		}
	}
}

// TestClaimsAreComparedAfterAFloorIsRaised: a new floor is compared by each sweep. After a growth, the namespaces take turns.
func TestClaimsAreComparedAfterAFloorIsRaised(t *testing.T) {
	floor := build.GrowTo("data=128Mi", "")
	growth := func(phase api.Phase, floors string) build.Option {
		return build.Status(build.Operation(phase, build.Growth(floors), endedBefore(time.Hour)))
	}
	for situation, row := range map[string]struct {
		options []build.Option
		want    int // comparisons in 15 minutes
	}{
		"the growth has succeeded":         {[]build.Option{floor, growth(api.Succeeded, "data=128Mi")}, 1},
		"the growth has failed":            {[]build.Option{floor, growth(api.Failed, "data=128Mi")}, 1},
		"growth is off since the failure":  {[]build.Option{growth(api.Failed, "data=128Mi")}, 1},
		"the floor is higher":              {[]build.Option{floor, growth(api.Succeeded, "data=96Mi")}, 15},
		"the floor has had no growth":      {[]build.Option{floor}, 15},
		"the request changed since growth": {[]build.Option{build.Resize("data=64Mi"), growth(api.Succeeded, "data=128Mi")}, 15},
	} {
		set, compared := build.Set("web", append(row.options, build.Template("data", "64Mi", "fixed"))...), 0
		for minute := range 15 {
			now := build.Now.Add(time.Duration(minute) * time.Minute)
			if claimsDue(operation.Change{Set: set, Records: operation.Of(set), Now: now, PreviousSweep: now.Add(-time.Minute)}) {
				compared++
			}
		}
		if compared != row.want {
			t.Errorf("%s: the claims are compared %d times, want %d", situation, compared, row.want)
		}
	}
}

// endedBefore lets the resize end this long before build.Now.
func endedBefore(ago time.Duration) func(*api.Resize) {
	return func(r *api.Resize) { r.Finished = operation.Moment(build.Now.Add(-ago)) }
}

// TestClaimsAreComparedWithAnyTickPeriod: a claim that was created with the old size after the resize is found only by this comparison.
func TestClaimsAreComparedWithAnyTickPeriod(t *testing.T) {
	for _, tick := range []time.Duration{30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour} {
		for i := range 20 {
			set := build.Set("web", build.Resize("data=128Mi"), build.Status(build.Operation(api.Succeeded, endedBefore(time.Hour))))
			set.Namespace = fmt.Sprint("tenant-", i)
			previous, compared := build.Now.Add(-tick), 0
			for now := build.Now; now.Before(build.Now.Add(2 * time.Hour)); now = now.Add(tick) {
				if claimsDue(operation.Change{Set: set, Records: operation.Of(set), Now: now, PreviousSweep: previous}) {
					compared++
				}
				previous = now
			}
			if want := int(2 * time.Hour / max(tick, claimPeriod)); compared != want {
				t.Errorf("a tick every %s: the claims of %s are compared %d times in two hours, want %d", tick, set.Namespace, compared, want)
			}
		}
	}
}

// TestPausedOwnersAreCheckedWithAnyTickPeriod: no event reports that an owner is being deleted, and its pause may prevent that.
func TestPausedOwnersAreCheckedWithAnyTickPeriod(t *testing.T) {
	lists := build.EmptyLists()
	lists["controllerrevisions"] = []metav1.Object{pauseRecord(build.SleepID, "uid-db", time.Hour)}
	f := New(kube.NewClient(lists.Serve()), build.SleepSettings(), nil, slog.New(slog.DiscardHandler))
	for first := range 10 {
		checked := 0
		for i := range 4 {
			now := build.Now.Add(time.Duration(first)*time.Minute + time.Duration(i)*20*time.Minute)
			f.lastSweep = now.Add(-20 * time.Minute)
			found := newFindings(now)
			found.active[operationKey{build.Namespace, build.SleepID}] = api.KindSleep
			if err := f.sweepJournals(t.Context(), "", now, found); err != nil {
				t.Fatal(err)
			}
			checked += len(found.order)
		}
		if checked != 4 {
			t.Errorf("a tick every 20 minutes, from minute %d: the owner is checked %d times, want 4", first, checked)
		}
	}
}

// TestNamespaceWithoutRightsDelaysNoOther: DRYDOCK_NAMESPACES has two namespaces, with RoleBindings in each
// (config/overlays/namespace). The tenant of one deletes the namespace, or the RoleBinding in it, so its lists are forbidden.
func TestNamespaceWithoutRightsDelaysNoOther(t *testing.T) {
	lists := build.EmptyLists()
	lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
		build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
	for _, order := range [][]string{{build.Namespace, "tenant"}, {"tenant", build.Namespace}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/namespaces/tenant/") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
				return
			}
			lists.ServeHTTP(w, r)
		}))
		defer server.Close()
		to := &sentEvents{}
		tick := event.New()
		tick.SetType(events.Tick)
		_, err := New(kube.NewClient(&rest.Config{Host: server.URL}), api.Settings{Namespaces: order}, to,
			slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
		if len(to.events) != 1 || err != nil {
			t.Errorf("namespaces %v: the sweep sent %v for namespace %s, want 1 event; error: %.160v", order, to.events, build.Namespace, err)
		}
		_, err = New(kube.NewClient(&rest.Config{Host: server.URL}), api.Settings{Namespaces: []string{"tenant"}}, to,
			slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
		if err == nil {
			t.Error("no namespace could be read, and there is no error")
		}
	}
}

// fewSends ends the sweep's time after some events, like a Broker that replies slowly.
type fewSends struct {
	left int
	stop context.CancelFunc
	seen map[string]int
}

func (s *fewSends) Send(_ context.Context, e event.Event) error {
	ref, _ := events.SetOf(e)
	s.seen[ref.Name]++
	if s.left--; s.left == 0 {
		s.stop()
	}
	return nil
}

// TestLongQueueStarvesNoSet: a namespace has more sets with work than a sweep has time for. Each set must get an event in some sweep.
func TestLongQueueStarvesNoSet(t *testing.T) {
	seen := map[string]int{}
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		f := New(kube.NewClient(build.EmptyLists().Serve()), api.Settings{}, &fewSends{left: 3, stop: cancel, seen: seen},
			slog.New(slog.DiscardHandler))
		_ = f.sendAll(ctx, findingsWith(map[string]int{"shop": 6}))
		cancel()
	}
	if len(seen) != 6 {
		t.Errorf("in 100 sweeps only %d of 6 sets got events: %v", len(seen), seen)
	}
}

// TestSweepWakesOnlyResizesWhoseTurnHasCome: a thousand resizes may wait, and an event for each of them would start many functions for
// nothing.
func TestSweepWakesOnlyResizesWhoseTurnHasCome(t *testing.T) {
	recordOf := func(set string) *api.Resize {
		return build.Operation(api.Planned, build.Members(api.MemberPending, "data-"+set+"-0"), func(record *api.Resize) {
			record.Set, record.Reason = api.SetRef{Name: set, UID: types.UID("uid-" + set)}, api.TurnWaits
		}, build.DerivedID)
	}
	waits := func(set string, options ...build.Option) metav1.Object {
		return build.Set(set, append(options, build.Status(recordOf(set)))...)
	}
	forged := recordOf("b")
	forged.Operation = recordOf("a").Operation
	list := func(entries ...string) metav1.Object {
		config := &corev1.ConfigMap{Data: map[string]string{}}
		config.Namespace, config.Name = api.HomeNamespace, api.TurnsConfigMap
		for i, entry := range entries {
			set := strings.TrimRight(entry, "*+")
			operation := recordOf(set).Operation
			if set == "web" {
				operation = build.ID
			}
			config.Data[operation] = fmt.Sprintf(`{"namespace":"%s","set":"%s","movers":1,"since":"2026-01-01T00:00:0%dZ"}`,
				build.Namespace, set, i)
			if strings.HasSuffix(entry, "+") {
				offered := time.Now().UTC().Format(time.RFC3339)
				config.Data[operation] = strings.TrimSuffix(config.Data[operation], "}") + `,"offered":"` + offered + `"}`
			}
			if strings.HasSuffix(entry, "*") {
				config.Data[operation] = strings.TrimSuffix(config.Data[operation], "}") + `,"until":"2200-01-01T00:00:00Z"}`
			}
		}
		return config
	}
	type sets = []metav1.Object
	journal := build.Journal(build.Operation(api.Moving))
	for name, row := range map[string]struct {
		sets   []metav1.Object
		list   metav1.Object
		others build.Lists
		want   string
	}{
		"the first of three": {sets{waits("a"), waits("b"), waits("c")}, list("a+", "b", "c"), nil, "a: pause-owner"},
		"the first of three, and another one, because the list has no offer": {sets{waits("a"), waits("b"), waits("c")},
			list("a", "b", "c"), nil, "a: pause-owner, c: pause-owner"},
		"none, because another one copies; its operation is over": {sets{waits("a")}, list("a", "x*"), nil, "x: pause-owner"},
		"a resize that the list does not have": {sets{waits("a"), waits("b")}, list("a"), nil,
			"a: pause-owner, b: pause-owner"},
		"a resize whose id another set has forged": {sets{waits("a"), build.Set("b", build.Status(forged))}, list(), nil,
			"a: pause-owner, b: pause-owner"},
		"a resize that has taken its turn": {sets{waits("a")}, list("a*"), nil, "a: pause-owner"},
		"a turn whose operation only a journal has": {nil, list("web*"), build.Lists{"controllerrevisions": {journal}},
			"web: restore backup pause-owner"},
		"an aborted resize": {sets{waits("a", build.Annotation(api.AbortAnnotation, "")), waits("b")}, list("a+", "b"), nil,
			"a: pause-owner restore"},
		"without a list, all": {sets{waits("a"), waits("b")}, nil, nil, "a: pause-owner, b: pause-owner"},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["statefulsets"] = row.sets
			if row.list != nil {
				lists["configmaps"] = []metav1.Object{row.list}
			}
			for plural, objects := range row.others {
				lists[plural] = objects
			}
			to := &sentEvents{}
			tick := event.New()
			tick.SetType(events.Tick)
			sift := New(kube.NewClient(lists.Serve()), api.Settings{Movers: 1}, to, slog.New(slog.DiscardHandler))
			if _, err := sift.Handle(t.Context(), tick); err != nil {
				t.Fatal(err)
			}
			slices.Sort(to.events)
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("the sweep wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestSweepWakesNoResizeThatAFullListRefuses: a tenant may have requested more resizes than the list takes.
func TestSweepWakesNoResizeThatAFullListRefuses(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{}}
	config.Namespace, config.Name = api.HomeNamespace, api.TurnsConfigMap
	for i := range 1500 {
		config.Data[fmt.Sprintf("%012d", i)] = fmt.Sprintf(`{"namespace":"%s","set":"set-%d","movers":1,"until":"2200-01-01T00:00:00Z"}`,
			build.Namespace, i)
	}
	lists := build.EmptyLists()
	lists["configmaps"] = []metav1.Object{config}
	sift := New(kube.NewClient(lists.Serve()), api.Settings{Movers: 1}, &sentEvents{}, slog.New(slog.DiscardHandler))
	found := newFindings(build.Now)
	for operation := range config.Data {
		found.active[operationKey{build.Namespace, operation}] = api.KindResize
	}
	late := noticeOf(build.Set("late"), []api.Function{api.PauseOwner})
	found.waitingTurns["late"] = &late
	if err := sift.sweepTurns(t.Context(), build.Now, found); err != nil || len(found.order) != 0 {
		t.Errorf("%v, %v", found.order, err)
	}
}

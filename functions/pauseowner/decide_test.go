package pauseowner

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestPlannedResizeStartsOrEnds shows a resize of a set that has no owner to pause.
// Invariants: I3, I5, I8.
func TestPlannedResizeStartsOrEnds(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"))
	late := build.Operation(api.Planned, build.Due(-time.Second))
	set := func(status *api.Resize, options ...build.Option) Input {
		options = append([]build.Option{build.Status(status), build.Replicas(3)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Settings: build.Settings()}
	}
	check(t, map[string]Input{
		"there is no set":                   Input{Observed: build.World()},
		"the set is being deleted":          set(planned, build.Deleting()),
		"the record cannot be read":         set(planned, build.Annotation(api.StatusAnnotation, "{")),
		"there is no operation":             Input{Observed: build.World(build.Set("web"))},
		"another function has it":           set(build.Operation(api.Moving)),
		"the record belongs to another set": set(planned, build.UID("uid-2")),
		"the set has no owner":              set(planned),
		"owner-policy ignores the owner": set(planned, build.ControlledBy("Database", "main"),
			build.Annotation(api.OwnerPolicyAnnotation, "ignore")),
		"an owner appeared after the owners were read":        set(planned, build.ControlledBy("Database", "main")),
		"the operation is aborted: the annotation is removed": set(planned, build.Annotation(api.AbortAnnotation, "")),
		"the set opts out":        set(planned, build.Label(api.ManagedLabel, "")),
		"the deadline has passed": set(late),
	})
}

// TestOverdueResizeMayStartOnce: after an outage, or while a thousand resizes begin, pause-owner may get an event only after the deadline.
func TestOverdueResizeMayStartOnce(t *testing.T) {
	members := build.Members(api.MemberPending, "data-web-0")
	late := build.Operation(api.Planned, build.Due(-time.Hour), members)
	requested := build.Resize(late.Request)
	in := func(record *api.Resize, options ...build.Option) Input {
		options = append([]build.Option{build.Status(record)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Settings: build.Settings(), Owners: ownersOf(redisOwner(nil))}
	}
	again := late.Clone()
	again.StartsLater = true
	rollback := build.Operation(api.Planned, build.RollbackOf("x"), build.Due(-time.Hour), members)
	asked := in(late, requested)
	asked.OwnerRecords = []OwnerRecord{ownerRecordOf(late.Operation, redisOwner(heldFor(late.Operation)))}
	check(t, map[string]Input{
		"no owner was asked":                  in(late, requested),
		"no owner was asked for the 2nd time": in(again, requested),
		"its owner was asked":                 asked,
		"the user has changed the request":    in(late, build.Resize("data=1Ti")),
		"the user has withdrawn the request":  in(late),
		"the user has aborted it":             in(late, requested, build.Annotation(api.AbortAnnotation, "")),
		"it is a rollback":                    in(rollback, requested),
	})
}

const (
	kind     = "RedisReplication"
	resource = plan.Resource("redisreplications.v1beta2.redis.redis.opstreelabs.in")
	key      = "redisreplication.opstreelabs.in/skip-reconcile"
)

// redisOwner is the owner of set web.
func redisOwner(annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("redis.redis.opstreelabs.in/v1beta2")
	object.SetKind(kind)
	object.SetNamespace(build.Namespace)
	object.SetName("main")
	object.SetUID("uid-main")
	object.SetResourceVersion("7")
	object.SetAnnotations(annotations)
	return object
}

// heldFor returns the annotations of an owner that is paused for the operations.
func heldFor(operations ...string) map[string]string {
	pause := &api.Pause{Version: api.PauseVersion, Settings: []api.PausedSetting{{In: "annotation", Key: key, Value: "true"}}}
	for _, o := range operations {
		pause.Holders = append(pause.Holders, api.Holder{Operation: o, Set: "web"})
	}
	return map[string]string{key: "true", api.OwnerPausedAnnotation: pause.Encode()}
}

// ownersOf returns the owner of set web, with its consent.
func ownersOf(object *unstructured.Unstructured) []Owner {
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	return []Owner{{Ref: metav1.OwnerReference{APIVersion: "redis.redis.opstreelabs.in/v1beta2", Kind: kind, Name: "main", UID: "uid-main"},
		Row: row, Resource: resource, Object: object, Allowed: true}}
}

// ownerRecordOf is the record of the pause for an operation.
func ownerRecordOf(operation string, object *unstructured.Unstructured) OwnerRecord {
	status := build.Operation(api.Planned)
	status.Operation = operation
	doc := api.PausedOwner{Version: api.PauseVersion, Kind: kind, Name: "main", UID: "uid-main"}
	revision := resources.MakeOwnerRecord(build.Set("web"), status, doc)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, _ := api.LoadLink(revision)
	return OwnerRecord{Revision: revision, Link: link, Owner: &doc, Resource: resource, Object: object}
}

// TestResizePausesOwner shows a resize of a set with one owner.
// Invariants: I5.
func TestResizePausesOwner(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"))
	deleting := redisOwner(nil)
	deleting.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
	problem := ownersOf(redisOwner(nil))
	problem[0].Problem = "the operator has no pause"
	unpaused := map[string]string{api.OwnerPausedAnnotation: heldFor(build.ID)[api.OwnerPausedAnnotation]}
	asks := func(all []Owner, denied error, records ...OwnerRecord) Input {
		set := build.Set("web", build.Status(planned), build.Replicas(3), build.ControlledBy(kind, "main"))
		return Input{Observed: build.World(set), Settings: build.Settings(), Owners: all, OwnerRecords: records, Rejected: denied}
	}
	check(t, map[string]Input{
		"the owner is recorded, then paused":             asks(ownersOf(redisOwner(nil)), nil),
		"the process died after the record":              asks(ownersOf(redisOwner(nil)), nil, ownerRecordOf(build.ID, redisOwner(nil))),
		"the record of another operation does not count": asks(ownersOf(redisOwner(nil)), nil, ownerRecordOf("other", redisOwner(nil))),
		"paused for this operation": asks(ownersOf(redisOwner(heldFor(build.ID))), nil, ownerRecordOf(build.ID,
			nil)),
		"paused for another operation":                   asks(ownersOf(redisOwner(heldFor("other"))), nil),
		"a user has paused the owner, whose pause stays": asks(ownersOf(redisOwner(map[string]string{key: "true"})), nil),
		"the operator removed the pause: it is restored": asks(ownersOf(redisOwner(unpaused)), nil, ownerRecordOf(build.ID, nil)),
		"its owner cannot be paused":                     asks(problem, nil),
		"the API server refuses":                         asks(ownersOf(redisOwner(nil)), errors.New("forbidden")),
		"it does not exist":                              asks(ownersOf(nil), nil),
		"Drydock's annotation on the owner cannot be read": asks(ownersOf(redisOwner(map[string]string{api.OwnerPausedAnnotation: "{"})),
			nil),
		"it is being deleted": asks(ownersOf(deleting), nil),
	})
}

// observedOthers returns the observed objects that are not part of the world.
func observedOthers(in Input) []metav1.Object {
	var all []metav1.Object
	if in.Turns != nil {
		all = append(all, in.Turns.Object())
	}
	for _, o := range in.Owners {
		if o.Object != nil {
			all = append(all, o.Object)
		}
	}
	for _, r := range in.OwnerRecords {
		all = append(all, r.Revision)
		if r.Object != nil {
			all = append(all, r.Object)
		}
	}
	return all
}

// TestOwnerIsResumedAfterResize: the pause ends with the resize, however that ends.
// Invariants: I5.
func TestOwnerIsResumedAfterResize(t *testing.T) {
	paused := []OwnerRecord{ownerRecordOf(build.ID, redisOwner(heldFor(build.ID)))}
	on := func(status *api.Resize, objects ...metav1.Object) Input {
		return Input{Observed: build.World(append(objects, build.Set("web", build.Status(status)))...), OwnerRecords: paused}
	}
	other := build.Operation(api.Moving)
	other.Operation = "0123456789ac"
	unreadable := ownerRecordOf(build.ID, redisOwner(heldFor(build.ID)))
	unreadable.Err = fmt.Errorf("no record")
	check(t, map[string]Input{
		"the operation succeeded":     on(build.Operation(api.Succeeded)),
		"the operation failed":        on(build.Operation(api.Failed)),
		"the set is gone":             Input{Observed: build.World(), OwnerRecords: paused},
		"the set has lost its record": Input{Observed: build.World(build.Set("web")), OwnerRecords: paused},
		"another operation runs":      on(other),
		"the process died before it deleted the record": Input{Observed: build.World(),
			OwnerRecords: []OwnerRecord{ownerRecordOf(build.ID, redisOwner(nil))}},
		"the owner is gone": Input{Observed: build.World(),
			OwnerRecords: []OwnerRecord{ownerRecordOf(build.ID, nil)}},
		"another operation needs the pause": Input{Observed: build.World(),
			OwnerRecords: []OwnerRecord{ownerRecordOf(build.ID, redisOwner(heldFor(build.ID, "other")))}},
		"the operation runs":                   on(build.Operation(api.Moving)),
		"every member runs on its new volumes": on(build.Operation(api.Finishing)),
		"it is given up":                       on(build.Operation(api.Reverting)),
		"the set is being created again": Input{Observed: build.World(build.Journal(build.Operation(api.Moving))),
			OwnerRecords: paused},
		"the set has lost its record, and its journal remains": Input{Observed: build.World(build.Set("web"),
			build.Journal(build.Operation(api.Moving))), OwnerRecords: paused},
		"the record cannot be read": Input{Observed: build.World(), OwnerRecords: []OwnerRecord{unreadable}},
		"Drydock's annotation on the owner cannot be read": Input{Observed: build.World(),
			OwnerRecords: []OwnerRecord{ownerRecordOf(build.ID, redisOwner(map[string]string{api.OwnerPausedAnnotation: "{"}))}},
		"nothing is paused": Input{Observed: build.World(build.Set("web"))},
	})
}

// TestOwnersAreReadOnlyBeforeDeadline: an operation that ends anyway must not fail because an owner cannot be read.
// Invariants: I8.
func TestOwnersAreReadOnlyBeforeDeadline(t *testing.T) {
	planned, late := build.Operation(api.Planned, build.Due(time.Minute)), build.Operation(api.Planned, build.Due(-time.Second))
	ownedBy := build.ControlledBy(kind, "main")
	for name, row := range map[string]struct {
		status  operation.Record
		options []build.Option
		want    bool
	}{
		"planned": {planned, []build.Option{ownedBy}, true},
		"overdue": {late, []build.Option{ownedBy}, false},
		"aborted": {planned, []build.Option{ownedBy, build.Annotation(api.AbortAnnotation, "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := !endsNow(Input{Observed: build.World(build.Set("web", row.options...))}, row.status); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// unpausedRabbit is a RabbitmqCluster. Its operator removes labels from its StatefulSets, and copies its labels and annotations to them.
func unpausedRabbit(labels, annotations map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("rabbitmq.com/v1beta1")
	object.SetKind("RabbitmqCluster")
	object.SetNamespace(build.Namespace)
	object.SetName("mq")
	object.SetUID("uid-mq")
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return object
}

var optedOut = build.Label(api.ManagedLabel, "")

// TestMetadataOfSetIsMended: what an operator did to the label and the annotations of a set without operations.
func TestMetadataOfSetIsMended(t *testing.T) {
	optedIn := map[string]string{api.ManagedLabel: "true"}
	paused := map[string]string{api.OwnerPausedAnnotation: "{}"}
	copied := build.Annotation(api.OwnerPausedAnnotation, "{}")
	observed := func(resource *unstructured.Unstructured, options ...build.Option) Input {
		set := build.Set("web", append([]build.Option{controlledBy(resource)}, options...)...)
		return observeSet(t, build.Lists{"statefulsets": objectList{set}, "rabbitmqclusters": objectList{resource},
			"prometheuses": objectList{resource}})
	}
	prometheus := unpausedRabbit(nil, nil)
	prometheus.SetAPIVersion("monitoring.coreos.com/v1")
	prometheus.SetKind("Prometheus")
	gone := unpausedRabbit(nil, nil)
	gone.SetUID("uid-of-a-former-one")
	another := build.Edit(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].UID = "uid-mq" })
	sleeping := build.WithSleep(build.Sleep(api.Asleep))
	check(t, map[string]Input{
		"the label is lost":                                     observed(unpausedRabbit(nil, nil), optedOut),
		"the label is lost, and the resource has it":            observed(unpausedRabbit(optedIn, nil), optedOut),
		"the label is lost, and the resource is gone":           observed(gone, optedOut, another),
		"the label is lost, and the operator keeps labels":      observed(prometheus, optedOut),
		"the set is labelled, and the resource is not":          observed(unpausedRabbit(nil, nil)),
		"the record of a pause was copied":                      observed(unpausedRabbit(nil, nil), copied),
		"it was copied, and the resource still has it":          observed(unpausedRabbit(nil, paused), copied),
		"it was copied, and the resource is gone":               observed(gone, copied, another),
		"it was copied to a set that has opted out":             observed(unpausedRabbit(optedIn, nil), copied, optedOut),
		"it was copied to a set of an operator that keeps them": observed(prometheus, copied),
		"it was copied, and the set sleeps":                     observed(unpausedRabbit(nil, nil), copied, sleeping),
	})
}

// TestUnreadableControllerKeepsCopy: as long as the resource may have the record, its operator would copy it again.
func TestUnreadableControllerKeepsCopy(t *testing.T) {
	set := build.Set("web", controlledBy(unpausedRabbit(nil, nil)), build.Annotation(api.OwnerPausedAnnotation, "{}"))
	in := Input{Observed: build.World(set),
		Controller: &Owner{Problem: "it is forbidden"}}
	if p := Decide(in); p.Kind == plan.KindDo {
		t.Error(p)
	}
	in.Controller.Problem = ""
	if p := Decide(in); p.Kind != plan.KindDo || p.Reason != api.OwnerResumed {
		t.Error(p)
	}
}

// TestRequestOnOwnerBeginsNothing: prometheus-operator copies the request to each set that it creates again with the old size.
func TestRequestOnOwnerBeginsNothing(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(0))
	planned.Deadline = operation.Moment(build.Now.Add(build.Settings().PlanTimeout))
	in := func(request string) Input {
		owner := redisOwner(map[string]string{api.ResizeAnnotation: request})
		return Input{Observed: build.World(build.Set("web", build.Status(planned), build.ControlledBy(kind, "main"))), Settings: build.Settings(),
			Owners: ownersOf(owner)}
	}
	check(t, map[string]Input{
		"the request is on the owner, too": in(planned.Request),
		"the owner has another request":    in("data=1Ti"),
	})
}

// TestOwnerConcerned: which changes of a set without operations concern pause-owner.
func TestOwnerConcerned(t *testing.T) {
	copied := build.Annotation(api.OwnerPausedAnnotation, "{}")
	owned := controlledBy(unpausedRabbit(nil, nil))
	deleting := build.Edit(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: build.Now} })
	reports := build.WithSleep(build.Sleep(api.Succeeded, func(s *api.Sleep) { s.OwnerProblem = "MariaDB main stays paused" }))
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		gone bool
		want bool
		tick bool // else an event
	}{
		"it has a report, and no operator":   {set: build.Set("web", reports), tick: true, want: true},
		"it has a report, between two ticks": {set: build.Set("web", owned, reports)},
		"no report at a tick":                {set: build.Set("web", owned), tick: true},
		"a set of an operator":               {set: build.Set("web", owned)},
		"it is gone, or has lost its label":  {set: build.Set("web", owned), gone: true, want: true},
		"it is deleted":                      {set: build.Set("web", owned, deleting), gone: true},
		"no operator controls it":            {set: build.Set("web", copied), gone: true},
		"it has a copy":                      {set: build.Set("web", owned, copied), want: true},
		"it has a copy, and has opted out":   {set: build.Set("web", owned, copied, optedOut)},
		"it has a copy, and sleeps":          {set: build.Set("web", owned, copied, build.WithSleep(build.Sleep(api.Asleep)))},
		"it has a copy, and its sleep ended": {set: build.Set("web", owned, copied, build.WithSleep(build.Sleep(api.Succeeded))), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			change := operation.Change{Set: row.set, Records: operation.Of(row.set), Now: build.Now, Gone: row.gone,
				Swept: row.tick}
			if got := len(operation.OwnerConcerned(change)) > 0; got != row.want {
				t.Errorf("concerned: %v", got)
			}
		})
	}
}

// TestWaitingResizeThatIgnoresItsOwner: a sleep has ended, and its owner is still paused, for example because pause-owner has lost its
// rights. The user sets owner-policy=ignore and requests a resize, which waits for its turn. With owner-policy=ignore, observe lists the
// records of paused owners, and does not read the owners.
func TestWaitingResizeThatIgnoresItsOwner(t *testing.T) {
	_, planned := plannedUnderLimit()
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	full := turnsOf(t, turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true), own)
	record := kedaScaler(t).held(t, owners.ByPause, build.SleepID).recorded(owners.ByPause)
	lists := listsWithTurns(build.Set("web", build.Status(planned), build.Annotation(api.OwnerPolicyAnnotation, "ignore")))
	lists["controllerrevisions"] = []metav1.Object{record.Revision}
	server := httptest.NewServer(lists)
	defer server.Close()
	settings := build.Settings()
	settings.Movers = 2
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), settings, owners.BuiltIn(), slog.New(slog.DiscardHandler))
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || len(in.OwnerRecords) != 1 {
		t.Fatalf("%v, %d records", err, len(in.OwnerRecords))
	}
	in.Turns = full
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("pause-owner panics at every event until the resize has its turn: %s", fmt.Sprint(p))
		}
	}()
	for range 2 { // the first decision stores that it waits
		p := Decide(in)
		t.Logf("%s", p)
		if next := build.Stored(p); next != nil {
			in.Set = build.With(in.Set, build.Status(next))
		}
	}
}

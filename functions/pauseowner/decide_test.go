package pauseowner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
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

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

func TestDecide(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"))
	late := build.Operation(api.Planned, build.Due(-time.Second))
	set := func(status *api.Resize, options ...build.Option) Input {
		options = append([]build.Option{build.Status(status), build.Replicas(3)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Settings: build.Settings()}
	}
	check(t, map[string]Input{
		"there is no set":                          Input{Observed: build.World()},
		"the set is being deleted":                 set(planned, build.Deleting()),
		"the status cannot be read":                set(planned, build.Annotation(api.StatusAnnotation, "{")),
		"there is no operation":                    Input{Observed: build.World(build.Set("web"))},
		"another function has it":                  set(build.Operation(api.Moving)),
		"I3: the status is another set's":          set(planned, build.UID("uid-2")),
		"nobody owns the set":                      set(planned),
		"an owner that is to be ignored":           set(planned, build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")),
		"I5: an owner that came meanwhile":         set(planned, build.Owned("Database", "main")),
		"somebody aborts; the annotation is taken": set(planned, build.Annotation(api.AbortAnnotation, "")),
		"I8: the deadline has passed":              set(late),
	})
}

const (
	kind     = "RedisReplication"
	resource = plan.Resource("redisreplications.v1beta2.redis.redis.opstreelabs.in")
	key      = "redisreplication.opstreelabs.in/skip-reconcile"
)

// redis is the owner of set web.
func redis(annotations map[string]string) *unstructured.Unstructured {
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

// held are the annotations of an owner that the operations have paused.
func held(operations ...string) map[string]string {
	pause := &api.Pause{Version: api.PauseVersion, Made: []api.Made{{In: "annotation", Key: key, Value: "true"}}}
	for _, o := range operations {
		pause.For = append(pause.For, api.Holder{Operation: o, Set: "web"})
	}
	return map[string]string{key: "true", api.OwnerPausedAnnotation: pause.Encode()}
}

func ownerIs(object *unstructured.Unstructured) []Owner {
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	return []Owner{{Ref: metav1.OwnerReference{APIVersion: "redis.redis.opstreelabs.in/v1beta2", Kind: kind, Name: "main", UID: "uid-main"},
		Row: row, Resource: resource, Object: object, Allowed: true}}
}

// recordOf is the record of the pause, for an operation.
func recordOf(operation string, object *unstructured.Unstructured) Record {
	status := build.Operation(api.Planned)
	status.Operation = operation
	doc := api.PausedOwner{Version: api.PauseVersion, Kind: kind, Name: "main", UID: "uid-main"}
	revision := resources.MakeOwnerRecord(build.Set("web"), status, doc)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, _ := api.LoadLink(revision)
	return Record{Revision: revision, Link: link, Owner: &doc, Resource: resource, Object: object}
}

func TestConsentOfAnOwner(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"))
	deleting := redis(nil)
	deleting.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
	problem := ownerIs(redis(nil))
	problem[0].Problem = "nobody knows how"
	asks := func(all []Owner, denied error, records ...Record) Input {
		set := build.Set("web", build.Status(planned), build.Replicas(3), build.Owned(kind, "main"))
		return Input{Observed: build.World(set), Settings: build.Settings(), Owners: all, Records: records, Denied: denied}
	}
	check(t, map[string]Input{
		"it works: recorded, then paused":             asks(ownerIs(redis(nil)), nil),
		"died after the record":                       asks(ownerIs(redis(nil)), nil, recordOf(build.ID, redis(nil))),
		"a record of another operation is none":       asks(ownerIs(redis(nil)), nil, recordOf("other", redis(nil))),
		"paused for this operation":                   asks(ownerIs(redis(held(build.ID))), nil, recordOf(build.ID, nil)),
		"paused for another operation":                asks(ownerIs(redis(held("other"))), nil),
		"I5: paused by a person, which stays theirs":  asks(ownerIs(redis(map[string]string{key: "true"})), nil),
		"the operator took the pause away: once more": asks(ownerIs(redis(map[string]string{api.OwnerPausedAnnotation: held(build.ID)[api.OwnerPausedAnnotation]})), nil, recordOf(build.ID, nil)),
		"it cannot be paused":                         asks(problem, nil),
		"the API server refuses":                      asks(ownerIs(redis(nil)), errors.New("forbidden")),
		"it does not exist":                           asks(ownerIs(nil), nil),
		"what we did to it cannot be read":            asks(ownerIs(redis(map[string]string{api.OwnerPausedAnnotation: "{"})), nil),
		"it is being deleted":                         asks(ownerIs(deleting), nil),
	})
}

// seen are the objects of the input beside the observed ones.
func seen(in Input) []metav1.Object {
	var all []metav1.Object
	for _, o := range in.Owners {
		if o.Object != nil {
			all = append(all, o.Object)
		}
	}
	for _, r := range in.Records {
		all = append(all, r.Revision)
		if r.Object != nil {
			all = append(all, r.Object)
		}
	}
	return all
}

func TestResume(t *testing.T) {
	paused := []Record{recordOf(build.ID, redis(held(build.ID)))}
	on := func(status *api.Resize, objects ...metav1.Object) Input {
		return Input{Observed: build.World(append(objects, build.Set("web", build.Status(status)))...), Records: paused}
	}
	other := build.Operation(api.Moving)
	other.Operation = "0123456789ac"
	unreadable := recordOf(build.ID, redis(held(build.ID)))
	unreadable.Err = fmt.Errorf("no record")
	check(t, map[string]Input{
		"I5: the operation succeeded":             on(build.Operation(api.Succeeded)),
		"I5: the operation failed":                on(build.Operation(api.Failed)),
		"I5: the set is gone":                     Input{Observed: build.World(), Records: paused},
		"I5: the set lost its status":             Input{Observed: build.World(build.Set("web")), Records: paused},
		"another operation runs":                  on(other),
		"released, and died before the record":    Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(nil))}},
		"the owner is gone":                       Input{Observed: build.World(), Records: []Record{recordOf(build.ID, nil)}},
		"another operation needs the pause":       Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(held(build.ID, "other")))}},
		"the operation runs":                      on(build.Operation(api.Moving)),
		"every member runs on its new volumes":    on(build.Operation(api.Finishing)),
		"it is given up":                          on(build.Operation(api.Reverting)),
		"the set is just being made again":        Input{Observed: build.World(build.Journal(build.Operation(api.Moving))), Records: paused},
		"a set that lost its status, a journal":   Input{Observed: build.World(build.Set("web"), build.Journal(build.Operation(api.Moving))), Records: paused},
		"the record cannot be read":               Input{Observed: build.World(), Records: []Record{unreadable}},
		"what we did to the owner cannot be read": Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(map[string]string{api.OwnerPausedAnnotation: "{"}))}},
		"nothing is paused":                       Input{Observed: build.World(build.Set("web"))},
	})
}

// TestI8AnOwnerIsAskedInTimeOnly: an operation that is over anyway does not need what perhaps cannot be read.
// Invariants: I8.
func TestI8AnOwnerIsAskedInTimeOnly(t *testing.T) {
	planned, late := build.Operation(api.Planned, build.Due(time.Minute)), build.Operation(api.Planned, build.Due(-time.Second))
	ownedBy, ignore := build.Owned(kind, "main"), build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerIgnore))
	for name, row := range map[string]struct {
		status  operation.Record
		options []build.Option
		want    bool
	}{
		"planned": {planned, []build.Option{ownedBy}, true},
		"overdue": {late, []build.Option{ownedBy}, false},
		"aborted": {planned, []build.Option{ownedBy, build.Annotation(api.AbortAnnotation, "")}, false},
		"ignored": {planned, []build.Option{ownedBy, ignore}, false},
		"nobody owns it, but something may scale it": {planned, nil, true},
		"under way":             {build.Operation(api.Moving), []build.Option{ownedBy}, false},
		"there is no operation": {nil, []build.Option{ownedBy}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asksOwners(Input{Observed: build.World(build.Set("web", row.options...))}, row.status); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

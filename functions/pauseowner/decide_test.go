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
	const goesOn = "do OwnerConsents: patch statefulsets web {+status} -> owner.paused"
	const moving = "Moving OwnerConsents, attempt 1, due in 20h0m0s; 0 Pending"
	const part = ", attempt 1, due in 12m0s; 0 Pending"
	set := func(status *api.Resize, options ...build.Option) Input {
		options = append([]build.Option{build.Status(status), build.Replicas(3)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Settings: build.Settings()}
	}
	for name, row := range map[string]struct {
		in   Input
		want string
		next string
	}{
		"there is no set":                  {in: Input{Observed: build.World()}, want: "noop SetGone"},
		"the set is being deleted":         {in: set(planned, build.Deleting()), want: "noop SetGone"},
		"the status cannot be read":        {in: set(planned, build.Annotation(api.StatusAnnotation, "{")), want: "noop StatusInvalid"},
		"there is no operation":            {in: Input{Observed: build.World(build.Set("web"))}, want: "noop NotOurPhase"},
		"another function has it":          {in: set(build.Operation(api.Moving)), want: "noop NotOurPhase"},
		"I3: the status is another set's":  {in: set(planned, build.UID("uid-2")), want: "noop NotOurPhase"},
		"nobody owns the set":              {in: set(planned), want: goesOn, next: moving},
		"an owner that is to be ignored":   {in: set(planned, build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")), want: goesOn, next: moving},
		"I5: an owner that came meanwhile": {in: set(planned, build.Owned("Database", "main")), want: "noop OwnerNotPausable"},
		"somebody aborts; the annotation is taken": {
			in:   set(planned, build.Annotation(api.AbortAnnotation, "")),
			want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "Reverting Aborted at Planned" + part,
		},
		"I8: the deadline has passed": {
			in:   set(late),
			want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: "Reverting DeadlineExceeded at Planned, attempt 1, due in 12m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next)
		})
	}
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
	const goesOn = "do OwnerConsents: patch statefulsets web {+status} -> owner.paused"
	const moving = "Moving OwnerConsents, attempt 1, due in 20h0m0s; 0 Pending"
	const refused = "do OwnerNotPausable: patch statefulsets web {+status}"
	const rolled = "Reverting OwnerNotPausable at Planned, attempt 1, due in 12m0s; 0 Pending"
	const record = "create controllerrevisions drydock-" + build.ID + "-owner-2b2628ce" + "; "
	const patch = "patch " + string(resource) + " main {+" + key + ", +owner-paused}"
	deleting := redis(nil)
	deleting.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
	problem := ownerIs(redis(nil))
	problem[0].Problem = "nobody knows how"
	for name, row := range map[string]struct {
		owner   []Owner
		records []Record
		denied  error
		want    string
		next    string
	}{
		"it works: recorded, then paused":             {owner: ownerIs(redis(nil)), want: "do OwnerPausing: " + record + patch},
		"died after the record":                       {owner: ownerIs(redis(nil)), records: []Record{recordOf(build.ID, redis(nil))}, want: "do OwnerPausing: " + patch},
		"a record of another operation is none":       {owner: ownerIs(redis(nil)), records: []Record{recordOf("other", redis(nil))}, want: "do OwnerPausing: " + record + patch},
		"paused for this operation":                   {owner: ownerIs(redis(held(build.ID))), records: []Record{recordOf(build.ID, nil)}, want: goesOn, next: moving},
		"paused for another operation":                {owner: ownerIs(redis(held("other"))), want: "do OwnerPausing: " + record + "patch " + string(resource) + " main {+owner-paused}"},
		"I5: paused by a person, which stays theirs":  {owner: ownerIs(redis(map[string]string{key: "true"})), want: goesOn, next: moving},
		"the operator took the pause away: once more": {owner: ownerIs(redis(map[string]string{api.OwnerPausedAnnotation: held(build.ID)[api.OwnerPausedAnnotation]})), records: []Record{recordOf(build.ID, nil)}, want: "do OwnerPausing: patch " + string(resource) + " main {+" + key + "}"},
		"it cannot be paused":                         {owner: problem, want: refused, next: rolled},
		"the API server refuses":                      {owner: ownerIs(redis(nil)), denied: errors.New("forbidden"), want: refused, next: rolled},
		"it does not exist":                           {owner: ownerIs(nil), want: refused, next: rolled},
		"what we did to it cannot be read":            {owner: ownerIs(redis(map[string]string{api.OwnerPausedAnnotation: "{"})), want: refused, next: rolled},
		"it is being deleted": {owner: ownerIs(deleting), want: "do OwnerDeleting: patch statefulsets web {+status}",
			next: "Reverting OwnerDeleting at Planned, attempt 1, due in 12m0s; 0 Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			set := build.Set("web", build.Status(planned), build.Replicas(3), build.Owned(kind, "main"))
			in := Input{Observed: build.World(set), Settings: build.Settings(), Owners: row.owner, Records: row.records, Denied: row.denied}
			build.Expect(t, in.Observed, func() plan.Plan { return Decide(in) }, row.want, row.next, seen(in)...)
		})
	}
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
	const release = "do OwnerResumed: patch " + string(resource) + " main {-" + key + ", -owner-paused}"
	const forget = "do OwnerResumed: delete controllerrevisions drydock-" + build.ID + "-owner-2b2628ce" + " -> owner.resumed"
	paused := []Record{recordOf(build.ID, redis(held(build.ID)))}
	on := func(status *api.Resize, objects ...metav1.Object) Input {
		return Input{Observed: build.World(append(objects, build.Set("web", build.Status(status)))...), Records: paused}
	}
	other := build.Operation(api.Moving)
	other.Operation = "0123456789ac"
	unreadable := recordOf(build.ID, redis(held(build.ID)))
	unreadable.Err = fmt.Errorf("no record")
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"I5: the operation succeeded":             {on(build.Operation(api.Succeeded)), release},
		"I5: the operation failed":                {on(build.Operation(api.Failed)), release},
		"I5: the set is gone":                     {Input{Observed: build.World(), Records: paused}, release},
		"I5: the set lost its status":             {Input{Observed: build.World(build.Set("web")), Records: paused}, release},
		"another operation runs":                  {on(other), release},
		"released, and died before the record":    {Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(nil))}}, forget},
		"the owner is gone":                       {Input{Observed: build.World(), Records: []Record{recordOf(build.ID, nil)}}, forget},
		"another operation needs the pause":       {Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(held(build.ID, "other")))}}, "do OwnerResumed: patch " + string(resource) + " main {+owner-paused}"},
		"the operation runs":                      {on(build.Operation(api.Moving)), "noop OwnerStays"},
		"every member runs on its new volumes":    {on(build.Operation(api.Finishing)), release},
		"it is given up":                          {on(build.Operation(api.Reverting)), "noop OwnerStays"},
		"the set is just being made again":        {Input{Observed: build.World(build.Journal(build.Operation(api.Moving))), Records: paused}, "noop OwnerStays"},
		"a set that lost its status, a journal":   {Input{Observed: build.World(build.Set("web"), build.Journal(build.Operation(api.Moving))), Records: paused}, "noop OwnerStays"},
		"the record cannot be read":               {Input{Observed: build.World(), Records: []Record{unreadable}}, "noop OwnerStays"},
		"what we did to the owner cannot be read": {Input{Observed: build.World(), Records: []Record{recordOf(build.ID, redis(map[string]string{api.OwnerPausedAnnotation: "{"}))}}, "noop OwnerStays"},
		"nothing is paused":                       {Input{Observed: build.World(build.Set("web"))}, "noop NotOurPhase"},
	} {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, "", seen(row.in)...)
		})
	}
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

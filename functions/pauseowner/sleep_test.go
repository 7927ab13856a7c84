package pauseowner

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// owner is a custom resource main of the kind, as a set's owner.
func owner(t *testing.T, apiVersion, kind string, spec map[string]any) Owner {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	row, known := owners.BuiltIn().Find(gv.Group, kind)
	if !known {
		t.Fatalf("nothing is known about %s of %s", kind, gv.Group)
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(build.Namespace)
	object.SetName("main")
	object.SetUID(types.UID("uid-" + strings.ToLower(kind)))
	object.SetResourceVersion("7")
	if spec != nil {
		object.Object["spec"] = spec
	}
	ref := metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "main", UID: object.GetUID()}
	resource, err := row.Resource(ref)
	if err != nil {
		t.Fatal(err)
	}
	return Owner{Ref: ref, Row: row, Resource: resource, Object: object, Allowed: true}
}

// both can be paused and stopped, the next two only one of that.
func both(t *testing.T) Owner {
	t.Helper()
	return owner(t, "postgres-operator.crunchydata.com/v1beta1", "PostgresCluster", map[string]any{})
}

func onlyStop(t *testing.T) Owner {
	t.Helper()
	return owner(t, "pxc.percona.com/v1", "PerconaXtraDBCluster", map[string]any{})
}

func onlyPause(t *testing.T) Owner {
	t.Helper()
	return owner(t, "k8s.mariadb.com/v1alpha1", "MariaDB", map[string]any{})
}

// keda is what made an autoscaler.
func keda(t *testing.T) Owner {
	t.Helper()
	return owner(t, "keda.sh/v1alpha1", "ScaledObject", nil)
}

// held is the owner that the operations hold by the means.
func (o Owner) held(t *testing.T, by owners.Means, operations ...string) Owner {
	t.Helper()
	for _, operation := range operations {
		actions, err := o.Row.Hold(by, o.Resource, o.Object, api.Holder{Operation: operation, Set: "web"})
		if err != nil {
			t.Fatal(err)
		}
		o.Object = patched(t, o.Object, actions)
	}
	return o
}

// deleting is the owner on its way out.
func (o Owner) deleting() Owner {
	o.Object = o.Object.DeepCopy()
	o.Object.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
	return o
}

func patched(t *testing.T, object *unstructured.Unstructured, actions []plan.Action) *unstructured.Unstructured {
	t.Helper()
	text, _ := object.MarshalJSON()
	for _, a := range actions {
		ops, _ := json.Marshal(a.Ops)
		patch, err := jsonpatch.DecodePatch(ops)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = patch.Apply(text); err != nil {
			t.Fatal(err)
		}
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return next
}

// recorded is the record that the sleep holds the owner.
func (o Owner) recorded(by owners.Means) Record {
	sleep := build.Sleep(api.Planned)
	doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: o.Ref.APIVersion, Kind: o.Ref.Kind, Name: "main", UID: o.Ref.UID, Stopped: by == owners.ByStop}
	revision := resources.MakeOwnerRecord(build.Set("web"), sleep, doc)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, _ := api.LoadLink(revision)
	return Record{Revision: revision, Link: link, Owner: &doc, Resource: o.Resource, Object: o.Object}
}

// resumed is the record of an owner whose row says when a pause ends.
func (r Record) resumed(at owners.Moment) Record {
	r.Row.Resume = at
	return r
}

func recordName(o Owner) string { return api.OwnerRecordName(build.SleepID, o.Ref.UID) }

// asked is what is observed of a set with three replicas that is about to sleep, and of its owners.
func asked(sleep *api.Sleep, all []Owner, options ...build.Option) Input {
	options = append([]build.Option{build.Replicas(3), build.WithSleep(sleep)}, options...)
	if len(all) > 0 && all[0].Row.Operator != "keda" {
		options = append(options, build.Owned(all[0].Ref.Kind, "main"))
	}
	return Input{Observed: build.World(build.Set("web", options...)), Settings: build.SleepSettings(), Owners: all}
}

func (in Input) with(records ...Record) Input {
	in.Records = records
	return in
}

func (in Input) beside(siblings ...*appsv1.StatefulSet) Input {
	in.Siblings = siblings
	return in
}

func (in Input) denied(why string) Input {
	in.Denied = errors.New(why)
	return in
}

// writesTo reports whether the plan writes to an object of the resource.
func writesTo(p plan.Plan, resource plan.Resource) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == resource })
}

// refusedWith checks a plan that gives the sleep up, with the words in its message.
func refusedWith(t *testing.T, in Input, reason api.Reason) string {
	t.Helper()
	p := Decide(in)
	sleep := build.StoredSleep(p)
	if p.Reason != reason || p.Announce != events.OperationFailed || sleep == nil {
		t.Fatalf("%s", p)
	}
	if sleep.Phase != api.Refused || sleep.FailedAt != api.Planned || sleep.OwnerStops || sleep.Finished == nil || sleep.Deadline != nil || sleep.Replicas != 3 {
		t.Errorf("%s", build.Summary(sleep))
	}
	for _, a := range p.Actions {
		if a.Resource != plan.StatefulSets && a.Verb != plan.VerbRecord {
			t.Errorf("a sleep that is refused touches something: %s", a)
		}
	}
	if note := p.Actions[len(p.Actions)-1]; note.Verb != plan.VerbRecord || !note.Note.Warning || note.Note.Message != sleep.Message {
		t.Errorf("nobody is told: %s", p)
	}
	return sleep.Message
}

func TestConsentToASleep(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	mysql, pg := onlyPause(t), both(t)
	human := owner(t, "k8s.mariadb.com/v1alpha1", "MariaDB", map[string]any{"suspend": true})
	check(t, map[string]Input{
		"nobody owns the set":                              asked(planned, nil),
		"the set is being deleted":                         asked(planned, nil, build.Deleting()),
		"its document cannot be read":                      asked(planned, nil, build.Annotation(api.SleepAnnotation, "{")),
		"I3: it is another set's":                          asked(planned, nil, build.UID("uid-2")),
		"it sleeps already":                                asked(build.Sleep(api.Asleep), nil),
		"somebody aborts: idle-timeout's":                  asked(planned, []Owner{mysql}, build.Annotation(api.AbortAnnotation, "")),
		"an owner that is to be ignored":                   asked(planned, nil, build.Owned("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")),
		"an owner that came meanwhile":                     asked(planned, nil, build.Owned("Database", "main")),
		"it is recorded, then paused":                      asked(planned, []Owner{mysql}),
		"died after the record":                            asked(planned, []Owner{mysql}).with(mysql.recorded(owners.ByPause)),
		"paused for this sleep":                            asked(planned, []Owner{mysql.held(t, owners.ByPause, build.SleepID)}),
		"paused by a person, which stays theirs":           asked(planned, []Owner{human}),
		"paused for a resize, too":                         asked(planned, []Owner{mysql.held(t, owners.ByPause, "other")}),
		"it can stop, and was paused by a person":          asked(planned, []Owner{owner(t, pg.Ref.APIVersion, pg.Ref.Kind, map[string]any{"paused": true})}),
		"it can stop, and is paused for another operation": asked(planned, []Owner{pg.held(t, owners.ByPause, "other")}),
		"a scaler is paused as an owner is":                asked(planned, []Owner{keda(t)}),
		"an owner, and then a scaler":                      asked(planned, []Owner{mysql.held(t, owners.ByPause, build.SleepID), keda(t)}),
		"both are paused":                                  asked(planned, []Owner{mysql.held(t, owners.ByPause, build.SleepID), keda(t).held(t, owners.ByPause, build.SleepID)}),
		"what is denied is not what consents by now":       asked(planned, []Owner{mysql.held(t, owners.ByPause, build.SleepID)}).denied("forbidden"),
		"a resize that is planned comes first":             asked(planned, nil, build.Status(build.Operation(api.Planned, build.Due(time.Minute)))),
	})
}

// Invariants: I4, I8.
func TestI8WhoRefusesEndsTheSleep(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	mysql, stop := onlyPause(t), onlyStop(t)
	gone, problem, unreadable := onlyPause(t), onlyPause(t), onlyPause(t)
	gone.Object, problem.Problem = nil, "nobody knows how"
	unreadable.Object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: "{"})
	minimum := Owner{Ref: metav1.OwnerReference{Kind: "HorizontalPodAutoscaler", Name: "web"}, Problem: "its minReplicas are 0, so it scales the set also from zero; set them to 1"}
	stopped := build.Sleep(api.Planned, build.SleepDue(time.Minute), build.OwnerStops())
	file := golden.Open(t)
	refused := map[string]struct {
		in     Input
		reason api.Reason
	}{
		"it cannot be paused":                  {asked(planned, []Owner{problem}), api.OwnerNotPausable},
		"it does not exist":                    {asked(planned, []Owner{gone}), api.OwnerNotPausable},
		"a retry would be about the resize":    {asked(planned, []Owner{gone}, build.Resize("data=2Gi")), api.OwnerNotPausable},
		"it is being deleted":                  {asked(planned, []Owner{mysql.deleting()}), api.OwnerDeleting},
		"the API server refuses":               {asked(planned, []Owner{mysql}).denied("mariadbs is forbidden"), api.OwnerNotPausable},
		"the API server refuses a stop":        {asked(stopped, []Owner{stop}).denied("forbidden"), api.OwnerNotPausable},
		"what we did to it cannot be read":     {asked(planned, []Owner{unreadable}), api.OwnerNotPausable},
		"an autoscaler scales from zero":       {asked(planned, []Owner{minimum}), api.ScalerActive},
		"the consent takes too long":           {asked(build.Sleep(api.Planned, build.SleepDue(-time.Second)), nil), api.DeadlineExceeded},
		"a stop that takes too long":           {asked(build.Sleep(api.Planned, build.SleepDue(-time.Second), build.OwnerStops()), nil), api.DeadlineExceeded},
		"I1: a stop would delete claims":       {asked(planned, []Owner{stop}, build.WhenScaled("Delete")), api.DeletesClaims},
		"I1: a stop would, by now":             {asked(stopped, []Owner{stop}, build.WhenScaled("Delete")), api.DeletesClaims},
		"I1: also if it could be paused":       {asked(planned, []Owner{both(t)}, build.WhenScaled("Delete")), api.DeletesClaims},
		"it is stopped with another operation": {asked(planned, []Owner{both(t).held(t, owners.ByStop, "other")}).beside(build.Set("db")), api.OwnerNotPausable},
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		t.Run(name, func(t *testing.T) { file.Entry(t, name, refusedWith(t, refused[name].in, refused[name].reason)) })
	}
}

// TestI1WhatDrydockScalesItselfIsKept: only a stop is its operator's doing.
// Invariants: I1.
func TestI1WhatDrydockScalesItselfIsKept(t *testing.T) {
	in := asked(build.Sleep(api.Planned, build.SleepDue(time.Minute)), []Owner{onlyPause(t).held(t, owners.ByPause, build.SleepID)}, build.WhenScaled("Delete"))
	check(t, map[string]Input{"whenScaled is Delete, and the owner is paused": in})
}

func TestStops(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	stops := build.Sleep(api.Planned, build.SleepDue(time.Minute), build.OwnerStops())
	stop, pg := onlyStop(t), both(t)
	human := owner(t, stop.Ref.APIVersion, stop.Ref.Kind, map[string]any{"pause": true})
	check(t, map[string]Input{
		"I2: that the operator scales the set is written first":  asked(planned, []Owner{stop}),
		"then it is recorded and stopped":                        asked(stops, []Owner{stop}),
		"died after the record":                                  asked(stops, []Owner{stop}).with(stop.recorded(owners.ByStop)),
		"it is stopped: the set goes":                            asked(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID)}),
		"a stop comes before a pause":                            asked(planned, []Owner{pg}),
		"the operator's stop, where it could be paused":          asked(stops, []Owner{pg}),
		"another set's sleep has stopped it":                     asked(stops, []Owner{stop.held(t, owners.ByStop, "other")}),
		"a person has stopped it, whose stop stays":              asked(stops, []Owner{human}),
		"a write was denied, but it has stopped by now":          asked(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID)}).denied("forbidden"),
		"the stop was decided: siblings are not looked at again": asked(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID)}).beside(build.Set("db")),
		"a scaler of a set that its operator stops is paused":    asked(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID), keda(t)}),
		"it is stopped, and its scaler is paused":                asked(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID), keda(t).held(t, owners.ByPause, build.SleepID)}),
		"a resize waits for no stop":                             resized(t, onlyPause(t)),
	})
	if record := recordMade(t, asked(stops, []Owner{stop})); !record.Stopped || record.UID != stop.Ref.UID || record.Resource != "perconaxtradbclusters" || record.APIVersion != "pxc.percona.com/v1" {
		t.Errorf("%+v", record)
	}
	if record := recordMade(t, asked(planned, []Owner{onlyPause(t)})); record.Stopped {
		t.Errorf("%+v", record)
	}
}

// resized is a set whose volumes are to be resized.
func resized(t *testing.T, o Owner) Input {
	t.Helper()
	set := build.Set("web", build.Replicas(3), build.Status(build.Operation(api.Planned, build.Due(time.Minute))), build.Owned(o.Ref.Kind, "main"))
	return Input{Observed: build.World(set), Settings: build.SleepSettings(), Owners: []Owner{o}}
}

func recordMade(t *testing.T, in Input) *api.PausedOwner {
	t.Helper()
	for _, a := range Decide(in).Actions {
		if a.Verb == plan.VerbCreate {
			record, err := api.LoadPausedOwner(a.Object.(*appsv1.ControllerRevision))
			if err != nil {
				t.Fatal(err)
			}
			return record
		}
	}
	t.Fatal("nothing is recorded")
	return nil
}

// TestAnOwnerThatCanOnlyStopIsNoneForAResize: a stop scales, and a resize has to hold the set itself.
func TestAnOwnerThatCanOnlyStopIsNoneForAResize(t *testing.T) {
	p := Decide(resized(t, onlyStop(t)))
	if status := build.Stored(p); p.Reason != api.OwnerNotPausable || status.Phase != api.Reverting || !strings.Contains(status.Message, "not pause for another operation") {
		t.Errorf("%s", p)
	}
}

// TestSiblings: an operator's stop is for all of its sets.
func TestSiblings(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	shop := build.InGroup("shop")
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return build.Set("db", append([]build.Option{build.Replicas(1)}, options...)...)
	}
	sleeping := func(phase api.Phase) *appsv1.StatefulSet { return db(build.WithSleep(build.Sleep(phase))) }
	stop, pg := []Owner{onlyStop(t)}, []Owner{both(t)}
	check(t, map[string]Input{
		"all the others are about to sleep":            asked(planned, stop).beside(sleeping(api.Planned)),
		"all the others stop":                          asked(planned, stop).beside(sleeping(api.Stopping)),
		"all the others sleep":                         asked(planned, stop).beside(sleeping(api.Asleep)),
		"one is at zero by somebody else":              asked(planned, stop).beside(db(build.Replicas(0))),
		"one of the same group is awake":               asked(planned, stop, shop).beside(db(shop)),
		"one of the same group, though it could pause": asked(planned, pg, shop).beside(db(shop)),
		"one of another group: a pause":                asked(planned, pg, shop).beside(db(build.InGroup("x"))),
		"one of no group: a pause":                     asked(planned, pg).beside(db()),
		"one that is not opted in: a pause":            asked(planned, pg, shop).beside(db(shop, build.Label(api.ManagedLabel, ""))),
		"the second of two is awake":                   asked(planned, stop, shop).beside(sleeping(api.Asleep), build.Set("db", shop)),
		"its sleep has failed":                         asked(planned, pg).beside(sleeping(api.Failed)),
		"its sleep cannot be read":                     asked(planned, pg).beside(db(build.Annotation(api.SleepAnnotation, "{"))),
		"I3: the sleep is of another set":              asked(planned, pg).beside(db(build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep).Encode()))),
	})
	for name, sibling := range map[string]*appsv1.StatefulSet{"awake": db(), "in another group": db(build.InGroup("x")),
		"not opted in": db(shop, build.Label(api.ManagedLabel, ""))} {
		t.Run("an operator that can only stop, and one is "+name, func(t *testing.T) {
			golden.Is(t, "testdata/TestSiblings-awake.golden", refusedWith(t, asked(planned, stop, shop).beside(sibling), api.OwnerNotPausable)+"\n")
		})
	}
}

// TestI1ASiblingWhoseClaimsWouldBeDeleted: a stop scales it to zero, too, and its own consent may not have come.
// Invariants: I1.
func TestI1ASiblingWhoseClaimsWouldBeDeleted(t *testing.T) {
	db := build.Set("db", build.WhenScaled("Delete"), build.WithSleep(build.Sleep(api.Planned)))
	for name, o := range map[string]Owner{"it can only stop": onlyStop(t), "it could be paused": both(t)} {
		for _, sleep := range []*api.Sleep{build.Sleep(api.Planned, build.SleepDue(time.Minute)), build.Sleep(api.Planned, build.SleepDue(time.Minute), build.OwnerStops())} {
			p := Decide(asked(sleep, []Owner{o}).beside(db))
			if next := build.StoredSleep(p); next != nil && next.OwnerStops || strings.Contains(p.String(), "spec.pause = true") || strings.Contains(p.String(), "spec.shutdown = true") {
				t.Errorf("%s: %s: %s", name, p, build.Summary(next))
			}
		}
	}
}

// TestASiblingThatWakesIsNotHeldAgain, whether its pods are there or its operator is just about to make them.
func TestASiblingThatWakesIsNotHeldAgain(t *testing.T) {
	for name, replicas := range map[string]int32{"its pods start": 1, "its operator is about to start it": 0} {
		for _, o := range []Owner{onlyStop(t), both(t)} {
			db := build.Set("db", build.Replicas(replicas), build.WithSleep(build.Sleep(api.Waking, build.OwnerStops())))
			p := Decide(asked(build.Sleep(api.Planned, build.SleepDue(time.Minute)), []Owner{o}).beside(db))
			next := build.StoredSleep(p)
			if next != nil && next.OwnerStops || replicas == 0 && slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == o.Resource }) {
				t.Errorf("%s: %s: %s", name, p, build.Summary(next))
			}
		}
	}
}

func TestResumeAfterASleep(t *testing.T) {
	mysql, stop := onlyPause(t).held(t, owners.ByPause, build.SleepID), onlyStop(t).held(t, owners.ByStop, build.SleepID)
	shared := onlyStop(t).held(t, owners.ByStop, build.SleepID, "other")
	in := func(phase api.Phase, record Record, options ...build.Option) Input {
		options = append([]build.Option{build.WithSleep(build.Sleep(phase))}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Records: []Record{record}}
	}
	pause, hold := mysql.recorded(owners.ByPause), stop.recorded(owners.ByStop)
	unreadable := pause
	unreadable.Err, unreadable.Owner = errors.New("no record"), nil
	resize := build.Status(build.Operation(api.Moving))
	check(t, map[string]Input{
		"the set stops":                                     in(api.Stopping, pause),
		"the set sleeps":                                    in(api.Asleep, pause),
		"it wakes, and has its replicas back":               in(api.Waking, pause),
		"it wakes, and none of its replicas is ready":       in(api.Waking, pause, build.Replicas(3), build.Counting(3, 0)),
		"it wakes, and waits for its replicas":              in(api.Waking, pause, build.Replicas(0)),
		"it wakes, and the controller has not seen it":      in(api.Waking, pause, build.Unseen()),
		"it wakes, and its row says: when it is ready":      in(api.Waking, pause.resumed(owners.AtReady)),
		"it is ready, and its row says so":                  in(api.Succeeded, pause.resumed(owners.AtReady)),
		"I5: the sleep has ended":                           in(api.Succeeded, pause),
		"I5: it failed":                                     in(api.Failed, pause),
		"I5: it was refused":                                in(api.Refused, pause),
		"I5: the set is gone":                               Input{Observed: build.World(), Records: []Record{pause}},
		"I5: the set lost its document":                     Input{Observed: build.World(build.Set("web")), Records: []Record{pause}},
		"I5: another sleep is on":                           in(api.Asleep, pause, build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, func(s *api.Sleep) { s.Operation = "000000000000" }).Encode())),
		"I3: the document is another set's":                 in(api.Asleep, pause, build.UID("uid-2")),
		"released, and died before the record":              in(api.Succeeded, onlyPause(t).recorded(owners.ByPause)),
		"the set sleeps, and a resize has ended":            in(api.Asleep, pause, build.Status(build.Operation(api.Succeeded))),
		"the sleep has ended, a resize runs":                in(api.Succeeded, pause, resize),
		"the operator is to stop it":                        in(api.Stopping, hold),
		"its operator has stopped it":                       in(api.Asleep, hold),
		"it wakes: its operator has to start it":            in(api.Waking, hold),
		"it wakes, for all sets of the owner":               in(api.Waking, shared.recorded(owners.ByStop)),
		"it wakes, and another set has ended the stop":      in(api.Waking, onlyStop(t).recorded(owners.ByStop)),
		"its sleep was refused, others sleep on":            in(api.Refused, shared.recorded(owners.ByStop)),
		"I5: the owner of a set that sleeps is deleted":     in(api.Asleep, mysql.deleting().recorded(owners.ByPause)),
		"I5: the owner that has stopped it is deleted":      in(api.Asleep, stop.deleting().recorded(owners.ByStop)),
		"I5: deleted and released: the record goes":         in(api.Asleep, onlyPause(t).deleting().recorded(owners.ByPause)),
		"the owner is gone":                                 in(api.Succeeded, func() Record { r := pause; r.Object = nil; return r }()),
		"the record cannot be read":                         in(api.Succeeded, unreadable),
		"a document that cannot be read: nothing is undone": in(api.Asleep, pause, build.Annotation(api.SleepAnnotation, "{")),
	})
	t.Run("a resize holds its owner, also when it is deleted", func(t *testing.T) {
		record := recordOf(build.ID, redis(held(build.ID)))
		record.Object.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
		if p := Decide(Input{Observed: build.World(build.Set("web", resize)), Records: []Record{record}}); p.Kind != plan.KindNoop || p.Reason != api.OwnerStays {
			t.Errorf("%s", p)
		}
	})
}

// observed reads what there is about set web.
func observed(t *testing.T, lists build.Lists) Input {
	t.Helper()
	all := build.Plurals()
	all["horizontalpodautoscalers"] = nil
	maps.Copy(all, lists)
	f := &Function{client: kube.NewClient(all.Serve(t)), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// controlled makes the object the controller.
func controlled(by *unstructured.Unstructured) build.Option {
	return func(o metav1.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: by.GetAPIVersion(), Kind: by.GetKind(), Name: by.GetName(), UID: by.GetUID(), Controller: ptr.To(true)}})
	}
}

type list = []metav1.Object

func hpaFor(target string, minimum *int32, options ...build.Option) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "hpa", UID: "uid-hpa"}}
	kind, name, _ := strings.Cut(target, "/")
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: name}
	hpa.Spec.MinReplicas = minimum
	return build.With(hpa, options...)
}

// TestWhoScalesASet: those that would give it replicas by themselves.
// Invariants: I4.
func TestWhoScalesASet(t *testing.T) {
	planned := build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute), func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	object := keda(t).Object
	unknown := &unstructured.Unstructured{Object: map[string]any{}}
	unknown.SetAPIVersion("example.com/v1")
	unknown.SetKind("Scaler")
	unknown.SetName("main")
	file := golden.Open(t)
	scalers := map[string]*autoscalingv2.HorizontalPodAutoscaler{
		"an autoscaler of its own":          hpaFor("StatefulSet/web", nil),
		"it keeps one":                      hpaFor("StatefulSet/web", ptr.To[int32](1)),
		"it scales from zero":               hpaFor("StatefulSet/web", ptr.To[int32](0)),
		"it scales another set":             hpaFor("StatefulSet/api", ptr.To[int32](0)),
		"it scales a Deployment":            hpaFor("Deployment/web", ptr.To[int32](0)),
		"KEDA has made it":                  hpaFor("StatefulSet/web", nil, controlled(object)),
		"somebody of whom nothing is known": hpaFor("StatefulSet/web", nil, controlled(unknown)),
		"KEDA has made one for another set": hpaFor("StatefulSet/api", nil, controlled(object)),
	}
	for _, name := range slices.Sorted(maps.Keys(scalers)) {
		t.Run(name, func(t *testing.T) {
			in := observed(t, build.Lists{"statefulsets": list{build.Set("web", planned)}, "horizontalpodautoscalers": list{scalers[name]}, "scaledobjects": list{object}})
			text := "no scaler"
			for _, o := range in.Owners {
				text = o.Ref.Kind + " " + o.Ref.Name + ": " + cmp.Or(o.Problem, "paused")
			}
			if len(in.Owners) > 1 {
				t.Errorf("%d scalers", len(in.Owners))
			}
			file.Entry(t, name, text)
		})
	}
}

func TestSiblingsAreThoseOfTheSameOwner(t *testing.T) {
	due := func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }
	planned := build.WithSleep(build.Sleep(api.Planned, due))
	cluster := both(t).Object
	other := cluster.DeepCopy()
	other.SetUID("uid-2")
	sets := func(options ...build.Option) build.Lists {
		return build.Lists{"postgresclusters": list{cluster}, "statefulsets": list{build.Set("web", append(options, controlled(cluster))...),
			build.Set("db", controlled(cluster)), build.Set("x", controlled(other)), build.Set("alone")}}
	}
	names := func(in Input) string {
		var all []string
		for _, s := range in.Siblings {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	if in := observed(t, sets(planned)); names(in) != "db" || len(in.Owners) != 1 {
		t.Errorf("%q, %d owners", names(in), len(in.Owners))
	}
	resize := build.Status(build.Operation(api.Planned, func(s *api.Resize) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	if in := observed(t, sets(resize)); names(in) != "" || len(in.Owners) != 1 {
		t.Errorf("for a resize: %q, %d owners", names(in), len(in.Owners))
	}
	maria := onlyPause(t).Object
	if in := observed(t, build.Lists{"mariadbs": list{maria}, "statefulsets": list{build.Set("web", planned, controlled(maria)), build.Set("db", controlled(maria))}}); names(in) != "" {
		t.Errorf("of an operator that cannot stop: %q", names(in))
	}
	if in := observed(t, sets(planned, build.Annotation(api.OwnerPolicyAnnotation, "ignore"))); len(in.Owners) != 0 {
		t.Errorf("%d owners that are ignored", len(in.Owners))
	}
}

// TestSiblingsAreThoseThatTheStopStops: what is stopped is the resource that people write, with all that is below it.
func TestSiblingsAreThoseThatTheStopStops(t *testing.T) {
	planned := build.WithSleep(build.Sleep(api.Planned, func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	spec := map[string]any{"cassandra": map[string]any{"datacenters": []any{map[string]any{"metadata": map[string]any{"name": "east"}}, map[string]any{"metadata": map[string]any{"name": "west"}}}}}
	top := owner(t, "k8ssandra.io/v1alpha1", "K8ssandraCluster", spec).Object
	datacenter := func(name string) *unstructured.Unstructured {
		dc := owner(t, "cassandra.datastax.com/v1beta1", "CassandraDatacenter", map[string]any{}).Object
		dc.SetName(name)
		dc.SetUID(types.UID("uid-" + name))
		return build.With(dc, controlled(top))
	}
	east, west := datacenter("east"), datacenter("west")
	in := observed(t, build.Lists{"k8ssandraclusters": list{top}, "cassandradatacenters": list{east, west},
		"statefulsets": list{build.Set("web", planned, controlled(east)), build.Set("db", controlled(west))}})
	if len(in.Owners) != 1 || in.Owners[0].Ref.Kind != "K8ssandraCluster" {
		t.Fatalf("%+v", in.Owners)
	}
	if len(in.Siblings) != 1 {
		t.Errorf("the stop of K8ssandraCluster main stops StatefulSet db, too, and %d siblings are known; it decides %s", len(in.Siblings), Decide(in))
	}
}

// TestObserveAfterASleep: the records of what is paused, and the owners that they name.
func TestObserveAfterASleep(t *testing.T) {
	mysql := onlyPause(t).held(t, owners.ByPause, build.SleepID)
	record := mysql.recorded(owners.ByPause)
	doc := *record.Owner
	doc.Resource = "mariadbs"
	record.Revision.Data.Raw = doc.Encode()
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		sleep     *api.Sleep
	}{
		{"the sleep has ended", build.Sleep(api.Succeeded)},
		{"the set sleeps", build.Sleep(api.Asleep)},
		{"the consent took too long", build.Sleep(api.Planned, build.SleepDue(-time.Hour))},
	} {
		in := observed(t, build.Lists{"statefulsets": list{build.Set("web", build.WithSleep(row.sleep))}, "mariadbs": list{mysql.Object}, "controllerrevisions": list{record.Revision}})
		file.Entry(t, row.situation, Decide(in).String())
	}
}

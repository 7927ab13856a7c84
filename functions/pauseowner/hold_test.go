package pauseowner

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestOwnerOfADeletedSetIsResumed: a user deletes a sleeping set. A finalizer holds the set, for example that of cleanup-pod, whose cleanup
// has failed and waits for the user. Nothing wakes a set that is being deleted, so the pause has no end.
func TestOwnerOfADeletedSetIsResumed(t *testing.T) {
	for name, o := range map[string]Owner{"it is paused": ownerWithPause(t), "it is stopped": ownerWithStop(t)} {
		by := owners.ByPause
		if name == "it is stopped" {
			by = owners.ByStop
		}
		held := o.held(t, by, build.SleepID)
		record := held.recorded(by)
		record.Row = held.Row
		set := build.Set("web", build.Replicas(0), build.ReplicaCounts(0, 0),
			build.WithSleep(build.Sleep(api.Asleep, build.AsleepFor(time.Hour))),
			build.Edit(func(s *appsv1.StatefulSet) {
				s.DeletionTimestamp = &metav1.Time{Time: build.Now.Add(-9 * time.Hour)}
				s.Finalizers = []string{api.CleanupFinalizer}
			}))
		in := Input{Observed: build.World(set), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
		if p := Decide(in); !writesTo(p, o.Resource) {
			t.Errorf("%s: the set is being deleted since nine hours: %s", name, p)
		}
	}
}

// withoutConsent is the owner without a user's consent to a pause.
func (o Owner) withoutConsent() Owner {
	o.Allowed = false
	return o
}

// TestOwnerWithoutConsentIsNotPaused: the message says how to give the consent.
func TestOwnerWithoutConsentIsNotPaused(t *testing.T) {
	mysql, stop := ownerWithPause(t), ownerWithStop(t)
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	file := golden.Open(t)
	refused := map[string]Owner{
		"to be paused":                            mysql.withoutConsent(),
		"to be stopped":                           stop.withoutConsent(),
		"paused for another operation":            mysql.held(t, owners.ByPause, "other").withoutConsent(),
		"paused before the consent was withdrawn": mysql.held(t, owners.ByPause, build.SleepID).withoutConsent(),
		"an autoscaler's owner":                   kedaScaler(t).withoutConsent(),
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, refusedWith(t, sleepAsking(planned, []Owner{refused[name]}), api.OwnerNotPausable))
		})
	}
	t.Run("a user has paused the owner: nothing is written to it", func(t *testing.T) {
		o := mysql.withoutConsent()
		o.Object = o.Object.DeepCopy()
		_ = unstructured.SetNestedField(o.Object.Object, true, "spec", "suspend")
		if p := Decide(sleepAsking(planned, []Owner{o})); p.Announce != events.OwnerPaused || p.Reason != api.OwnerConsents ||
			writesTo(p, o.Resource) {
			t.Error(p)
		}
	})
	t.Run("the release needs no consent", func(t *testing.T) {
		held := mysql.held(t, owners.ByPause, build.SleepID).withoutConsent()
		in := Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(api.Succeeded)))),
			OwnerRecords: []OwnerRecord{held.recorded(owners.ByPause)}}
		if p := Decide(in); p.Reason != api.OwnerResumed {
			t.Error(p)
		}
	})
}

// TestStuckPauseIsReported: pause-owner has lost its rights to the owner when the set is awake.
func TestStuckPauseIsReported(t *testing.T) {
	mysql := ownerWithPause(t).held(t, owners.ByPause, build.SleepID)
	record := mysql.recorded(owners.ByPause)
	record.Row = mysql.Row
	unread := record
	unread.Object, unread.Denied = nil, errors.New("it is forbidden")
	const problem = "MariaDB main stays paused: it is forbidden. To resume it, give the rights with kubectl drydock rbac --owners " +
		"mariadb-operator | kubectl apply -f -"
	in := func(phase api.Phase, r OwnerRecord, options ...func(*api.Sleep)) Input {
		return Input{Observed: build.World(build.Set("web", build.WithSleep(build.Sleep(phase, options...)))),
			OwnerRecords: []OwnerRecord{r}}
	}
	stays := func(s *api.Sleep) { s.OwnerProblem = problem }
	released := ownerWithPause(t).recorded(owners.ByPause)
	undeleted := in(api.Succeeded, released).withDenial("a policy denies it")
	undeleted.Failures = plan.Failures{rejectedWrite(plan.ControllerRevisions, released.Revision.Name, undeleted.Rejected)}
	ended := in(api.Succeeded, record, stays)
	ended.OwnerRecords = nil
	forbidden := in(api.Succeeded, record).withDenial("")
	forbidden.Failures = plan.Failures{rejectedWrite(record.Resource, "main",
		apierrors.NewForbidden(schema.GroupResource{Resource: "mariadbs"}, "main", errors.New("not now")))}
	withoutRow := unread
	withoutRow.Row = owners.Row{}
	check(t, map[string]Input{
		"it cannot be read":                      in(api.Succeeded, unread),
		"it cannot be read, and its row is gone": in(api.Succeeded, withoutRow),
		"a policy rejects the write":             in(api.Succeeded, record).withDenial("the hour is wrong"),
		"the write is forbidden":                 forbidden,
		"its record cannot be deleted":           undeleted,
		"the problem was reported":               in(api.Succeeded, unread, stays),
		"the set still sleeps":                   in(api.Asleep, unread),
		"the rights are back":                    in(api.Succeeded, record, stays),
		"it is resumed":                          in(api.Succeeded, released, stays),
		"its pause is over":                      ended,
		"the set is gone: a log line":            Input{Observed: build.World(), OwnerRecords: []OwnerRecord{unread}},
	})
	if (Input{Observed: build.World(), OwnerRecords: []OwnerRecord{unread}}).problems() == nil || in(api.Succeeded,
		unread).problems() != nil {
		t.Error("a dead letter is needed only for a missing set")
	}
}

// dueSleep is a sleep that waits for its owner at the time of the test.
func dueSleep() *api.Sleep {
	return build.Sleep(api.Planned, func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) })
}

// TestConsentComesFromTheNamespace: operators copy annotations of a resource into pod templates, and a user who may write the set may not
// give the consent. So neither of them counts.
func TestConsentComesFromTheNamespace(t *testing.T) {
	namespace := func(value string) *corev1.Namespace {
		ns := &corev1.Namespace{}
		ns.Name, ns.Labels = build.Namespace, map[string]string{api.PauseOwnersLabel: value}
		return ns
	}
	for name, row := range map[string]struct {
		resource  map[string]string
		namespace *corev1.Namespace
		set       build.Option
		want      bool
	}{
		"no consent": {nil, namespace(""), build.Label("a", "b"), false},
		"the resource, which does not count": {map[string]string{api.PauseOwnersLabel: "allow", api.Prefix + "allow": "pause"},
			namespace(""), build.Label("a", "b"), false},
		"the namespace":                        {nil, namespace("allow"), build.Label("a", "b"), true},
		"the namespace, with an unknown value": {nil, namespace("true"), build.Label("a", "b"), false},
		"the set itself, which does not count": {nil, namespace(""), build.Label(api.PauseOwnersLabel, "allow"), false},
	} {
		t.Run(name, func(t *testing.T) {
			mysql := ownerWithPause(t)
			mysql.Object.SetAnnotations(row.resource)
			set := build.Set("web", build.WithSleep(dueSleep()), controlledBy(mysql.Object), row.set)
			in := observeSet(t, build.Lists{"statefulsets": objectList{set}, "mariadbs": objectList{mysql.Object},
				"namespaces": objectList{row.namespace}})
			if len(in.Owners) != 1 || in.Owners[0].Allowed != row.want {
				t.Errorf("%+v", in.Owners)
			}
		})
	}
}

// TestNamespaceIsReadOnlyIfNeeded: if the owner is gone, no request reads the namespace.
func TestNamespaceIsReadOnlyIfNeeded(t *testing.T) {
	mysql := ownerWithPause(t)
	set := build.Set("web", build.WithSleep(dueSleep()), controlledBy(mysql.Object))
	another := mysql.Object.DeepCopy()
	another.SetUID("uid-another")
	lists := build.Lists{"statefulsets": objectList{set}, "mariadbs": objectList{another}, "controllerrevisions": nil,
		"horizontalpodautoscalers": nil}
	f := &Function{client: kube.NewClient(lists.Serve()), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || in.Owners[0].Allowed || in.Owners[0].Object != nil {
		t.Errorf("%+v, %v", in.Owners, err)
	}
	lists["mariadbs"] = objectList{mysql.Object}
	f.client = kube.NewClient(lists.Serve())
	if _, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"}); err == nil {
		t.Error("the namespace of an existing owner is not read")
	}
}

// TestRefusedSleepAsksItsOwnersAgain: only a cause that changes is written, and nothing is written to the owners.
func TestRefusedSleepAsksItsOwnersAgain(t *testing.T) {
	mysql, keda := ownerWithPause(t), kedaScaler(t)
	refuse := func(in Input) *api.Sleep { return build.StoredSleep(Decide(in)) }
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	noConsent := refuse(sleepAsking(planned, []Owner{mysql.withoutConsent()}))
	deletes := refuse(sleepAsking(planned, []Owner{ownerWithStop(t)}, build.WhenScaled("Delete")))
	rejected := refuse(sleepAsking(planned, []Owner{mysql}).withDenial("mariadbs is forbidden"))
	otherID := refuse(sleepAsking(planned, []Owner{mysql}).withDenial("denied by policy: request 19c2 at 11:59:05"))
	problem := mysql
	problem.Problem = "mariadbs is forbidden"
	unread := refuse(sleepAsking(planned, []Owner{problem}))
	longAgo := rejected.Clone()
	longAgo.Finished = operation.Moment(build.Now.Add(-build.SleepSettings().SleepRetry))
	unforeseen := sleepAsking(planned, []Owner{mysql}).withDenial("denied by policy")
	unforeseen.NotForeseen = true
	notForeseen := refuse(unforeseen)
	unforeseenLongAgo := notForeseen.Clone()
	unforeseenLongAgo.Finished = longAgo.Finished
	untried := func(sleep *api.Sleep) Input {
		in := sleepAsking(sleep, []Owner{mysql})
		in.Untried = true
		return in
	}
	ended := func(reason api.Reason) *api.Sleep { return build.Sleep(api.Refused, build.SleepEnded(reason, 0)) }
	ignore := build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerIgnore))
	shop := build.InGroup("shop")
	awake := refuse(sleepAsking(planned, []Owner{ownerWithStop(t)}, shop).withSiblings(build.Set("db")))
	check(t, map[string]Input{
		"the owner still does not allow a pause": sleepAsking(noConsent, []Owner{mysql.withoutConsent()}),
		"the owner allows a pause":               sleepAsking(noConsent, []Owner{mysql}),
		"owner-policy ignores the owner":         sleepAsking(noConsent, []Owner{mysql.withoutConsent()}, ignore),
		"the set has no owner any more":          sleepAsking(noConsent, nil),
		"another owner has another problem":      sleepAsking(noConsent, []Owner{mysql, keda.withoutConsent()}),
		"the owner is being deleted now":         sleepAsking(noConsent, []Owner{mysql.deleting()}),
		"a stop still deletes claims":            sleepAsking(deletes, []Owner{ownerWithStop(t)}, build.WhenScaled("Delete")),
		"a stop deletes no claims any more":      sleepAsking(deletes, []Owner{ownerWithStop(t)}),
		"the rights to read are back":            sleepAsking(unread, []Owner{mysql}),
		"the API server still rejects the pause": sleepAsking(rejected, []Owner{mysql}).withDenial("mariadbs is forbidden"),
		"the API server still rejects the pause, with another id": sleepAsking(otherID, []Owner{mysql}).withDenial(
			"denied by policy: request 7f3a at 12:00:05"),
		"the API server accepts the pause":               sleepAsking(rejected, []Owner{mysql}),
		"only the real pause was rejected":               sleepAsking(notForeseen, []Owner{mysql}),
		"only the real pause was rejected, long ago":     sleepAsking(unforeseenLongAgo, []Owner{mysql}),
		"the pause and its dry run are rejected":         sleepAsking(notForeseen, []Owner{mysql}).withDenial("denied by policy"),
		"the pause cannot be tried":                      untried(rejected),
		"the pause cannot be tried, but it is time":      untried(longAgo),
		"the operator's other set is still awake":        sleepAsking(awake, []Owner{ownerWithStop(t)}, shop).withSiblings(build.Set("db")),
		"the operator's other set joins the group":       sleepAsking(awake, []Owner{ownerWithStop(t)}, shop).withSiblings(build.Set("db", shop)),
		"the set is no longer opted in":                  sleepAsking(noConsent, []Owner{mysql}, build.Label(api.ManagedLabel, "")),
		"the owner of an earlier sleep is resumed first": sleepAsking(noConsent, []Owner{mysql}).withRecords(mysql.recorded(owners.ByPause)),
		"the sleep was refused for a probe":              sleepAsking(ended(api.ProbeFailed), []Owner{mysql}),
		"the sleep was refused, and the cause is gone":   sleepAsking(ended(api.CauseGone), []Owner{mysql}),
	})
}

// owner is a custom resource main of the kind that owns a set.
func owner(t *testing.T, apiVersion, kind string, spec map[string]any) Owner {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	row, known := owners.BuiltIn().Find(gv.Group, kind)
	if !known {
		t.Fatalf("no row names %s of %s", kind, gv.Group)
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

// ownerWithBoth can be paused and stopped.
func ownerWithBoth(t *testing.T) Owner {
	t.Helper()
	return owner(t, "postgres-operator.crunchydata.com/v1beta1", "PostgresCluster", map[string]any{})
}

// ownerWithStop can only be stopped.
func ownerWithStop(t *testing.T) Owner {
	t.Helper()
	return owner(t, "pxc.percona.com/v1", "PerconaXtraDBCluster", map[string]any{})
}

// ownerWithPause can only be paused.
func ownerWithPause(t *testing.T) Owner {
	t.Helper()
	return owner(t, "k8s.mariadb.com/v1alpha1", "MariaDB", map[string]any{})
}

// kedaScaler is the resource that created an autoscaler.
func kedaScaler(t *testing.T) Owner {
	t.Helper()
	return owner(t, "keda.sh/v1alpha1", "ScaledObject", nil)
}

// held is the owner while the operations pause or stop it.
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

// deleting is the owner while it is being deleted.
func (o Owner) deleting() Owner {
	o.Object = o.Object.DeepCopy()
	o.Object.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
	return o
}

// patched is the object after the actions.
func patched(t *testing.T, object *unstructured.Unstructured, actions []plan.Action) *unstructured.Unstructured {
	t.Helper()
	next, err := build.Patched(object, actions...)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// recorded is the sleep's record of the owner.
func (o Owner) recorded(by owners.Means) OwnerRecord {
	sleep := build.Sleep(api.Planned)
	doc := api.PausedOwner{Version: api.PauseVersion, APIVersion: o.Ref.APIVersion, Kind: o.Ref.Kind, Name: "main", UID: o.Ref.UID,
		Stopped: by == owners.ByStop}
	revision := resources.MakeOwnerRecord(build.Set("web"), sleep, doc)
	revision.UID, revision.ResourceVersion = "uid-record", "9"
	link, _ := api.LoadLink(revision)
	return OwnerRecord{Revision: revision, Link: link, Owner: &doc, Resource: o.Resource, Object: o.Object}
}

// created sets the age of the record.
func (r OwnerRecord) created(ago time.Duration) OwnerRecord {
	r.Revision.CreationTimestamp = metav1.NewTime(build.Now.Add(-ago))
	return r
}

// resumedAt is the record of an owner whose row says when a pause ends.
func (r OwnerRecord) resumedAt(at owners.ResumeMoment) OwnerRecord {
	r.Row.Resume = at
	return r
}

// sleepAsking is a set with three replicas before its sleep, with its owners.
func sleepAsking(sleep *api.Sleep, all []Owner, options ...build.Option) Input {
	options = append([]build.Option{build.Replicas(3), build.WithSleep(sleep)}, options...)
	if len(all) > 0 && all[0].Row.Operator != "keda" {
		options = append(options, build.ControlledBy(all[0].Ref.Kind, "main"))
	}
	return Input{Observed: build.World(build.Set("web", options...)), Settings: build.SleepSettings(), Owners: all}
}

func (in Input) withRecords(records ...OwnerRecord) Input {
	in.OwnerRecords = records
	return in
}

func (in Input) withSiblings(siblings ...*appsv1.StatefulSet) Input {
	in.Siblings = siblings
	return in
}

func (in Input) withDenial(why string) Input {
	in.Rejected = errors.New(why)
	if len(in.OwnerRecords) > 0 {
		in.Failures = plan.Failures{rejectedWrite(in.OwnerRecords[0].Resource, in.OwnerRecords[0].Owner.Name, in.Rejected)}
	}
	return in
}

// writesTo reports whether the plan writes to an object of the resource.
func writesTo(p plan.Plan, resource plan.Resource) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == resource })
}

// refusedWith checks that the plan refuses the sleep and changes nothing else. It returns the message.
func refusedWith(t *testing.T, in Input, reason api.Reason) string {
	t.Helper()
	p := Decide(in)
	sleep := build.StoredSleep(p)
	if p.Reason != reason || p.Announce != events.OperationFailed || sleep == nil {
		t.Fatalf("%s", p)
	}
	if sleep.Phase != api.Refused || sleep.FailedAt != api.Planned || sleep.OwnerStops || sleep.Finished == nil || sleep.Deadline != nil ||
		sleep.Replicas != 3 {
		t.Errorf("%s", build.Words(sleep))
	}
	for _, a := range p.Actions {
		if a.Resource != plan.StatefulSets && a.Verb != plan.VerbEvent {
			t.Errorf("a refused sleep changes something: %s", a)
		}
	}
	if note := p.Actions[len(p.Actions)-1]; note.Verb != plan.VerbEvent || !note.Note.Warning || note.Note.Message != sleep.Message {
		t.Errorf("the user gets no Event: %s", p)
	}
	return sleep.Message
}

// TestSleepPausesOwner shows a sleep of a set whose owners are paused.
// Invariants: I3.
func TestSleepPausesOwner(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	mysql, pg := ownerWithPause(t), ownerWithBoth(t)
	human := owner(t, "k8s.mariadb.com/v1alpha1", "MariaDB", map[string]any{"suspend": true})
	check(t, map[string]Input{
		"the set has no owner":     sleepAsking(planned, nil),
		"the set is being deleted": sleepAsking(planned, nil, build.Deleting()),
		"its record cannot be read": sleepAsking(planned, nil, build.Annotation(api.SleepAnnotation,
			"{")),
		"the record belongs to another set": sleepAsking(planned, nil, build.UID("uid-2")),
		"the set already sleeps":            sleepAsking(build.Sleep(api.Asleep), nil),
		"the sleep is aborted: idle-timeout is responsible": sleepAsking(planned, []Owner{mysql},
			build.Annotation(api.AbortAnnotation, "")),
		"owner-policy ignores the owner": sleepAsking(planned, nil, build.ControlledBy("Database", "main"),
			build.Annotation(api.OwnerPolicyAnnotation, "ignore")),
		"an owner appeared after the owners were read": sleepAsking(planned, nil, build.ControlledBy("Database", "main")),
		"the owner is recorded, then paused":           sleepAsking(planned, []Owner{mysql}),
		"the process died after the record": sleepAsking(planned,
			[]Owner{mysql}).withRecords(mysql.recorded(owners.ByPause)),
		"the owner is paused for this sleep": sleepAsking(planned,
			[]Owner{mysql.held(t, owners.ByPause, build.SleepID)}),
		"a user has paused the owner, whose pause stays": sleepAsking(planned, []Owner{human}),
		"the owner is also paused for a resize": sleepAsking(planned,
			[]Owner{mysql.held(t, owners.ByPause, "other")}),
		"the owner can be stopped, and a user has paused it": sleepAsking(planned,
			[]Owner{owner(t, pg.Ref.APIVersion, pg.Ref.Kind, map[string]any{"paused": true})}),
		"the owner can be stopped, and it is paused for another operation": sleepAsking(planned,
			[]Owner{pg.held(t, owners.ByPause, "other")}),
		"a scaler is paused like an owner": sleepAsking(planned, []Owner{kedaScaler(t)}),
		"an owner, and then a scaler": sleepAsking(planned,
			[]Owner{mysql.held(t, owners.ByPause, build.SleepID), kedaScaler(t)}),
		"both are paused": sleepAsking(planned,
			[]Owner{mysql.held(t, owners.ByPause, build.SleepID), kedaScaler(t).held(t, owners.ByPause, build.SleepID)}),
		"an earlier refusal does not count once the owner is paused": sleepAsking(planned,
			[]Owner{mysql.held(t, owners.ByPause, build.SleepID)}).withDenial("forbidden"),
		"a planned resize comes first": sleepAsking(planned, nil,
			build.Status(build.Operation(api.Planned, build.Due(time.Minute)))),
	})
}

// TestOwnerProblemRefusesSleep: a sleep is refused before the set is changed, and the message says what to do.
// Invariants: I1, I4, I8.
func TestOwnerProblemRefusesSleep(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	mysql, stop := ownerWithPause(t), ownerWithStop(t)
	gone, problem, unreadable := ownerWithPause(t), ownerWithPause(t), ownerWithPause(t)
	gone.Object, problem.Problem = nil, "the operator has no pause"
	unreadable.Object.SetAnnotations(map[string]string{api.OwnerPausedAnnotation: "{"})
	minimum := Owner{Ref: metav1.OwnerReference{Kind: "HorizontalPodAutoscaler", Name: "web"},
		Problem: "its minReplicas is 0, so it also scales the set up from zero; set minReplicas to 1"}
	stopped := build.Sleep(api.Planned, build.SleepDue(time.Minute), build.OwnerStops())
	file := golden.Open(t)
	refused := map[string]struct {
		in     Input
		reason api.Reason
	}{
		"its owner cannot be paused": {sleepAsking(planned, []Owner{problem}), api.OwnerNotPausable},
		"it does not exist":          {sleepAsking(planned, []Owner{gone}), api.OwnerNotPausable},
		"a retry would apply to the resize": {sleepAsking(planned, []Owner{gone}, build.Resize("data=2Gi")),
			api.OwnerNotPausable},
		"it is being deleted": {sleepAsking(planned, []Owner{mysql.deleting()}), api.OwnerDeleting},
		"the API server refuses": {sleepAsking(planned,
			[]Owner{mysql}).withDenial("mariadbs is forbidden"), api.OwnerNotPausable},
		"the API server refuses a stop": {sleepAsking(stopped, []Owner{stop}).withDenial("forbidden"),
			api.OwnerNotPausable},
		"Drydock's annotation on the owner cannot be read": {sleepAsking(planned, []Owner{unreadable}), api.OwnerNotPausable},
		"an autoscaler scales from zero":                   {sleepAsking(planned, []Owner{minimum}), api.ScalerActive},
		"the owner is not paused in time": {sleepAsking(build.Sleep(api.Planned, build.SleepDue(-time.Second)),
			nil), api.DeadlineExceeded},
		"the owner is not stopped in time": {sleepAsking(build.Sleep(api.Planned, build.SleepDue(-time.Second),
			build.OwnerStops()), nil), api.DeadlineExceeded},
		"a stop would delete claims": {sleepAsking(planned, []Owner{stop}, build.WhenScaled("Delete")),
			api.DeletesClaims},
		"a stop was chosen, and it would now delete claims": {sleepAsking(stopped, []Owner{stop}, build.WhenScaled("Delete")),
			api.DeletesClaims},
		"a stop would delete claims, and the owner could be paused": {sleepAsking(planned, []Owner{ownerWithBoth(t)},
			build.WhenScaled("Delete")), api.DeletesClaims},
		"the owner is stopped for another operation": {sleepAsking(planned,
			[]Owner{ownerWithBoth(t).held(t, owners.ByStop, "other")}).withSiblings(build.Set("db")), api.OwnerNotPausable},
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		t.Run(name, func(t *testing.T) { file.Entry(t, name, refusedWith(t, refused[name].in, refused[name].reason)) })
	}
}

// TestPauseAllowsWhenScaledDelete: with a paused owner, Drydock scales the set itself and keeps its claims.
// Invariants: I1.
func TestPauseAllowsWhenScaledDelete(t *testing.T) {
	in := sleepAsking(build.Sleep(api.Planned, build.SleepDue(time.Minute)),
		[]Owner{ownerWithPause(t).held(t, owners.ByPause, build.SleepID)}, build.WhenScaled("Delete"))
	check(t, map[string]Input{"whenScaled is Delete, and the owner is paused": in})
}

// TestSleepStopsThroughOperator shows a sleep that the owner's operator carries out.
// Invariants: I2.
func TestSleepStopsThroughOperator(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	stops := build.Sleep(api.Planned, build.SleepDue(time.Minute), build.OwnerStops())
	stop, pg := ownerWithStop(t), ownerWithBoth(t)
	human := owner(t, stop.Ref.APIVersion, stop.Ref.Kind, map[string]any{"pause": true})
	check(t, map[string]Input{
		"the record first says that the operator scales the set": sleepAsking(planned, []Owner{stop}),
		"then the owner is recorded and stopped":                 sleepAsking(stops, []Owner{stop}),
		"the process died after the record": sleepAsking(stops,
			[]Owner{stop}).withRecords(stop.recorded(owners.ByStop)),
		"the owner is stopped: the sleep starts":         sleepAsking(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID)}),
		"a stop comes before a pause":                    sleepAsking(planned, []Owner{pg}),
		"the stop of an owner that could also be paused": sleepAsking(stops, []Owner{pg}),
		"the sleep of another set has stopped the owner": sleepAsking(stops, []Owner{stop.held(t, owners.ByStop, "other")}),
		"a user has stopped the owner, whose stop stays": sleepAsking(stops, []Owner{human}),
		"a write was refused, but the owner is stopped now": sleepAsking(stops,
			[]Owner{stop.held(t, owners.ByStop, build.SleepID)}).withDenial("forbidden"),
		"the owner is stopped: siblings no longer matter": sleepAsking(stops,
			[]Owner{stop.held(t, owners.ByStop, build.SleepID)}).withSiblings(build.Set("db")),
		"the scaler of a set that its operator stops is paused": sleepAsking(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID),
			kedaScaler(t)}),
		"it is stopped, and its scaler is paused": sleepAsking(stops, []Owner{stop.held(t, owners.ByStop, build.SleepID),
			kedaScaler(t).held(t, owners.ByPause, build.SleepID)}),
		"a resize needs a pause, not a stop": resizeAsking(t, ownerWithPause(t)),
	})
	if record := createdRecord(t, sleepAsking(stops, []Owner{stop})); !record.Stopped || record.UID != stop.Ref.UID ||
		record.Resource != "perconaxtradbclusters" || record.APIVersion != "pxc.percona.com/v1" {
		t.Errorf("%+v", record)
	}
	if record := createdRecord(t, sleepAsking(planned, []Owner{ownerWithPause(t)})); record.Stopped {
		t.Errorf("%+v", record)
	}
}

// resizeAsking is a set with three replicas whose volumes will be resized.
func resizeAsking(t *testing.T, o Owner) Input {
	t.Helper()
	set := build.Set(
		"web",
		build.Replicas(3),
		build.Status(build.Operation(api.Planned, build.Due(time.Minute))),
		build.ControlledBy(o.Ref.Kind,
			"main"),
	)
	return Input{Observed: build.World(set), Settings: build.SleepSettings(), Owners: []Owner{o}}
}

// createdRecord is the record of the owner that the plan creates.
func createdRecord(t *testing.T, in Input) *api.PausedOwner {
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
	t.Fatal("no record is created")
	return nil
}

// TestResizeNeedsPauseNotStop: a stop scales the set, but a resize must hold the set itself.
func TestResizeNeedsPauseNotStop(t *testing.T) {
	p := Decide(resizeAsking(t, ownerWithStop(t)))
	if status := build.Stored(p); p.Reason != api.OwnerNotPausable || status.Phase != api.Reverting || !strings.Contains(status.Message,
		"cannot be paused for another operation") {
		t.Errorf("%s", p)
	}
}

// TestOperatorStopNeedsSleepingSiblings: an operator's stop applies to all of its sets.
// Invariants: I3.
func TestOperatorStopNeedsSleepingSiblings(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	shop := build.InGroup("shop")
	db := func(options ...build.Option) *appsv1.StatefulSet {
		return build.Set("db", append([]build.Option{build.Replicas(1)}, options...)...)
	}
	sleeping := func(phase api.Phase) *appsv1.StatefulSet { return db(build.WithSleep(build.Sleep(phase))) }
	stop, pg := []Owner{ownerWithStop(t)}, []Owner{ownerWithBoth(t)}
	soon, ignores := build.With(sleeping(api.Planned), shop), build.Annotation(api.OwnerPolicyAnnotation, "ignore")
	check(t, map[string]Input{
		"all the others of the group will sleep":                sleepAsking(planned, stop, shop).withSiblings(soon),
		"one of another group will sleep: a visit may end that": sleepAsking(planned, stop, build.InGroup("x")).withSiblings(soon),
		"one of no group will sleep: a visit may end that":      sleepAsking(planned, stop).withSiblings(sleeping(api.Planned)),
		"all the others stop":                                   sleepAsking(planned, stop).withSiblings(sleeping(api.Stopping)),
		"all the others sleep":                                  sleepAsking(planned, stop).withSiblings(sleeping(api.Asleep)),
		"a user has scaled the other set to zero":               sleepAsking(planned, stop).withSiblings(db(build.Replicas(0))),
		"one that sleeps ignores the operator": sleepAsking(planned, stop, shop).withSiblings(
			db(shop, build.Replicas(0), ignores)),
		"one that sleeps ignores the operator, and the owner could be paused": sleepAsking(planned, pg, shop).withSiblings(
			db(shop, build.Replicas(0), ignores)),
		"one of the same group is awake":                                sleepAsking(planned, stop, shop).withSiblings(db(shop)),
		"one of the same group is awake, and the owner could be paused": sleepAsking(planned, pg, shop).withSiblings(db(shop)),
		"one of another group is awake: a pause": sleepAsking(planned, pg,
			shop).withSiblings(db(build.InGroup("x"))),
		"one of no group is awake: a pause": sleepAsking(planned, pg).withSiblings(db()),
		"one without the opt-in is awake: a pause": sleepAsking(planned, pg, shop).withSiblings(db(shop,
			build.Label(api.ManagedLabel, ""))),
		"the second of two is awake": sleepAsking(planned, stop,
			shop).withSiblings(sleeping(api.Asleep), build.Set("db", shop)),
		"the sibling's sleep has failed: a pause": sleepAsking(planned, pg).withSiblings(sleeping(api.Failed)),
		"the sibling's sleep cannot be read: a pause": sleepAsking(planned,
			pg).withSiblings(db(build.Annotation(api.SleepAnnotation, "{"))),
		"the sibling's sleep belongs to another set: a pause": sleepAsking(planned,
			pg).withSiblings(db(build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep).Encode()))),
	})
	for name, sibling := range map[string]*appsv1.StatefulSet{"awake": db(), "in another group": db(build.InGroup("x")),
		"not opted in": db(shop, build.Label(api.ManagedLabel, ""))} {
		t.Run("an operator that can only stop, and one is "+name, func(t *testing.T) {
			golden.Is(t, "testdata/TestOperatorStopNeedsSleepingSiblings-awake.golden", refusedWith(t,
				sleepAsking(planned, stop, shop).withSiblings(sibling), api.OwnerNotPausable)+"\n")
		})
	}
}

// TestStopNeverDeletesClaimsOfSibling: the stop also scales the sibling to zero, perhaps before its own sleep was checked.
// Invariants: I1.
func TestStopNeverDeletesClaimsOfSibling(t *testing.T) {
	db := build.Set("db", build.WhenScaled("Delete"), build.WithSleep(build.Sleep(api.Planned)))
	for name, o := range map[string]Owner{"it can only stop": ownerWithStop(t), "it could be paused": ownerWithBoth(t)} {
		for _, sleep := range []*api.Sleep{build.Sleep(api.Planned, build.SleepDue(time.Minute)), build.Sleep(api.Planned,
			build.SleepDue(time.Minute), build.OwnerStops())} {
			p := Decide(sleepAsking(sleep, []Owner{o}).withSiblings(db))
			if next := build.StoredSleep(p); next != nil && next.OwnerStops || strings.Contains(p.String(), "spec.pause = true") ||
				strings.Contains(p.String(), "spec.shutdown = true") {
				t.Errorf("%s: %s: %s", name, p, build.Words(next))
			}
		}
	}
}

// TestWakingSiblingIsNotStopped: this holds while its pods start, and also before its operator creates them.
func TestWakingSiblingIsNotStopped(t *testing.T) {
	for name, replicas := range map[string]int32{"its pods start": 1, "its operator will start it soon": 0} {
		for _, o := range []Owner{ownerWithStop(t), ownerWithBoth(t)} {
			db := build.Set("db", build.Replicas(replicas), build.WithSleep(build.Sleep(api.Waking, build.OwnerStops())))
			p := Decide(sleepAsking(build.Sleep(api.Planned, build.SleepDue(time.Minute)), []Owner{o}).withSiblings(db))
			next := build.StoredSleep(p)
			if next != nil && next.OwnerStops || replicas == 0 && slices.ContainsFunc(p.Actions,
				func(a plan.Action) bool { return a.Resource == o.Resource }) {
				t.Errorf("%s: %s: %s", name, p, build.Words(next))
			}
		}
	}
}

// TestOwnerIsResumedAfterSleep shows when a pause or stop ends.
// Invariants: I3, I5.
func TestOwnerIsResumedAfterSleep(t *testing.T) {
	mysql, stop := ownerWithPause(t).held(t, owners.ByPause, build.SleepID), ownerWithStop(t).held(t, owners.ByStop, build.SleepID)
	shared := ownerWithStop(t).held(t, owners.ByStop, build.SleepID, "other")
	in := func(phase api.Phase, record OwnerRecord, options ...build.Option) Input {
		options = append([]build.Option{build.WithSleep(build.Sleep(phase))}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), OwnerRecords: []OwnerRecord{record}}
	}
	pause, hold := mysql.recorded(owners.ByPause), stop.recorded(owners.ByStop)
	unreadable := pause
	unreadable.Err, unreadable.Owner = errors.New("no record"), nil
	resize := build.Status(build.Operation(api.Moving))
	check(t, map[string]Input{
		"the set stops":                       in(api.Stopping, pause),
		"the set sleeps":                      in(api.Asleep, pause),
		"it wakes, and has its replicas back": in(api.Waking, pause),
		"it wakes, and none of its replicas is ready": in(api.Waking, pause, build.Replicas(3), build.ReplicaCounts(3,
			0)),
		"it wakes, and waits for its replicas":         in(api.Waking, pause, build.Replicas(0)),
		"it wakes, and the controller has not seen it": in(api.Waking, pause, build.NotObserved()),
		"it wakes, and its row waits for readiness":    in(api.Waking, pause.resumedAt(owners.AtReady)),
		"it is ready, and its row waits for readiness": in(api.Succeeded, pause.resumedAt(owners.AtReady)),
		"the sleep has ended":                          in(api.Succeeded, pause),
		"the sleep has failed":                         in(api.Failed, pause),
		"the sleep was refused":                        in(api.Refused, pause),
		"the set is gone": Input{Observed: build.World(),
			OwnerRecords: []OwnerRecord{pause}},
		"the set has lost its record": Input{Observed: build.World(build.Set("web")),
			OwnerRecords: []OwnerRecord{pause}},
		"another sleep is active": in(api.Asleep, pause, build.Annotation(api.SleepAnnotation,
			build.Sleep(api.Asleep, func(s *api.Sleep) { s.Operation = "000000000000" }).Encode())),
		"the record belongs to another set":             in(api.Asleep, pause, build.UID("uid-2")),
		"the process died before it deleted the record": in(api.Succeeded, ownerWithPause(t).recorded(owners.ByPause)),
		"the owner shows no pause, and its write may still arrive": in(api.Succeeded, ownerWithPause(t).recorded(owners.ByPause).
			created(longestRequest-time.Second)),
		"the owner shows no pause, and its write can arrive no more": in(api.Succeeded, ownerWithPause(t).recorded(owners.ByPause).
			created(longestRequest)),
		"the set sleeps, and a resize has ended": in(api.Asleep, pause,
			build.Status(build.Operation(api.Succeeded))),
		"the sleep has ended, and a resize runs":              in(api.Succeeded, pause, resize),
		"the operator is stopping the set":                    in(api.Stopping, hold),
		"the operator has stopped the set":                    in(api.Asleep, hold),
		"it wakes: its operator must start it":                in(api.Waking, hold),
		"it wakes, for all sets of the owner":                 in(api.Waking, shared.recorded(owners.ByStop)),
		"it wakes, and another set has ended the stop":        in(api.Waking, ownerWithStop(t).recorded(owners.ByStop)),
		"its sleep was refused, and others keep sleeping":     in(api.Refused, shared.recorded(owners.ByStop)),
		"the owner of a sleeping set is being deleted":        in(api.Asleep, mysql.deleting().recorded(owners.ByPause)),
		"the owner that has stopped the set is being deleted": in(api.Asleep, stop.deleting().recorded(owners.ByStop)),
		"the owner is being deleted and was released: the record is deleted": in(api.Asleep,
			ownerWithPause(t).deleting().recorded(owners.ByPause)),
		"the owner is gone": in(api.Succeeded,
			func() OwnerRecord { r := pause; r.Object = nil; return r }()),
		"the record cannot be read": in(api.Succeeded, unreadable),
		"the record of the sleep cannot be read: nothing is resumed": in(api.Asleep, pause, build.Annotation(api.SleepAnnotation,
			"{")),
	})
	t.Run("a resize holds its owner, also when it is deleted", func(t *testing.T) {
		record := ownerRecordOf(build.ID, redisOwner(heldFor(build.ID)))
		record.Object.SetDeletionTimestamp(&metav1.Time{Time: build.Now})
		if p := Decide(Input{Observed: build.World(build.Set("web", resize)),
			OwnerRecords: []OwnerRecord{record}}); p.Kind != plan.KindNoop || p.Reason != api.OwnerStays {
			t.Errorf("%s", p)
		}
	})
}

// observeSet reads what concerns set web.
func observeSet(t *testing.T, lists build.Lists) Input {
	t.Helper()
	all := build.EmptyLists()
	all["horizontalpodautoscalers"] = nil
	maps.Copy(all, lists)
	f := &Function{client: kube.NewClient(all.Serve()), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// controlledBy makes the resource the object's controller.
func controlledBy(by *unstructured.Unstructured) build.Option {
	return func(o metav1.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: by.GetAPIVersion(), Kind: by.GetKind(), Name: by.GetName(),
			UID: by.GetUID(), Controller: ptr.To(true)}})
	}
}

type objectList = []metav1.Object

// hpaFor is an autoscaler of the target.
func hpaFor(target string, minimum *int32, options ...build.Option) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "hpa", UID: "uid-hpa"}}
	kind, name, _ := strings.Cut(target, "/")
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: name}
	if kind == "Scaler" {
		hpa.Spec.ScaleTargetRef.APIVersion = v1alpha1.GroupVersion.String()
	}
	hpa.Spec.MinReplicas = minimum
	return build.With(hpa, options...)
}

// TestScalersOfSet shows which autoscalers would give a set replicas by themselves.
// Invariants: I4.
func TestScalersOfSet(t *testing.T) {
	planned := build.WithSleep(build.Sleep(api.Planned, build.SleepDue(time.Minute),
		func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	object := kedaScaler(t).Object
	unknown := &unstructured.Unstructured{Object: map[string]any{}}
	unknown.SetAPIVersion("example.com/v1")
	unknown.SetKind("Scaler")
	unknown.SetName("main")
	scaler := func(name, target string) metav1.Object {
		return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: name},
			Spec: v1alpha1.ScalerSpec{Target: target}}
	}
	own := &unstructured.Unstructured{Object: map[string]any{}}
	own.SetAPIVersion(v1alpha1.GroupVersion.String())
	own.SetKind("Scaler")
	own.SetName("pilot")
	file := golden.Open(t)
	scalers := map[string]*autoscalingv2.HorizontalPodAutoscaler{
		"an autoscaler with the default minimum": hpaFor("StatefulSet/web", nil),
		"it keeps one replica":                   hpaFor("StatefulSet/web", ptr.To[int32](1)),
		"it scales from zero":                    hpaFor("StatefulSet/web", ptr.To[int32](0)),
		"it scales another set":                  hpaFor("StatefulSet/api", ptr.To[int32](0)),
		"it scales a Deployment":                 hpaFor("Deployment/web", ptr.To[int32](0)),
		"KEDA has created it":                    hpaFor("StatefulSet/web", nil, controlledBy(object)),
		"an unknown resource has created it":     hpaFor("StatefulSet/web", nil, controlledBy(unknown)),
		"KEDA has created one for another set":   hpaFor("StatefulSet/api", nil, controlledBy(object)),
		"KEDA scales the set's Scaler":           hpaFor("Scaler/pilot", nil, controlledBy(object)),
		"KEDA scales another set's Scaler":       hpaFor("Scaler/other", nil, controlledBy(object)),
		"a user's autoscaler of the Scaler":      hpaFor("Scaler/pilot", nil),
		"Drydock's autoscaler of the Scaler":     hpaFor("Scaler/pilot", nil, controlledBy(own)),
	}
	for _, name := range slices.Sorted(maps.Keys(scalers)) {
		t.Run(name, func(t *testing.T) {
			in := observeSet(t, build.Lists{"statefulsets": objectList{build.Set("web", planned)},
				"horizontalpodautoscalers": objectList{scalers[name]}, "scaledobjects": objectList{object},
				"scalers": objectList{scaler("pilot", "web"), scaler("other", "api")}})
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

// TestSiblingsHaveSameOwner: siblings are read only for a sleep whose operator can stop its sets.
func TestSiblingsHaveSameOwner(t *testing.T) {
	due := func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }
	planned := build.WithSleep(build.Sleep(api.Planned, due))
	cluster := ownerWithBoth(t).Object
	other := cluster.DeepCopy()
	other.SetUID("uid-2")
	sets := func(options ...build.Option) build.Lists {
		return build.Lists{"postgresclusters": objectList{cluster}, "statefulsets": objectList{build.Set("web", append(options,
			controlledBy(cluster))...),
			build.Set("db", controlledBy(cluster)), build.Set("x", controlledBy(other)), build.Set("alone")}}
	}
	names := func(in Input) string {
		var all []string
		for _, s := range in.Siblings {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	if in := observeSet(t, sets(planned)); names(in) != "db" || len(in.Owners) != 1 {
		t.Errorf("%q, %d owners", names(in), len(in.Owners))
	}
	resize := build.Status(build.Operation(api.Planned, func(s *api.Resize) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	if in := observeSet(t, sets(resize)); names(in) != "" || len(in.Owners) != 1 {
		t.Errorf("for a resize: %q, %d owners", names(in), len(in.Owners))
	}
	maria := ownerWithPause(t).Object
	if in := observeSet(t, build.Lists{"mariadbs": objectList{maria}, "statefulsets": objectList{build.Set("web", planned,
		controlledBy(maria)), build.Set("db", controlledBy(maria))}}); names(in) != "" {
		t.Errorf("of an operator without a stop: %q", names(in))
	}
	if in := observeSet(t, sets(planned, build.Annotation(api.OwnerPolicyAnnotation, "ignore"))); len(in.Owners) != 0 {
		t.Errorf("%d owners, although owner-policy ignores them", len(in.Owners))
	}
}

// TestSiblingsIncludeSetsOfLowerControllers: the stop is written to the topmost resource and applies to every set below it.
func TestSiblingsIncludeSetsOfLowerControllers(t *testing.T) {
	planned := build.WithSleep(build.Sleep(api.Planned, func(s *api.Sleep) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) }))
	spec := map[string]any{"cassandra": map[string]any{"datacenters": []any{map[string]any{"metadata": map[string]any{"name": "east"}},
		map[string]any{"metadata": map[string]any{"name": "west"}}}}}
	top := owner(t, "k8ssandra.io/v1alpha1", "K8ssandraCluster", spec).Object
	datacenter := func(name string) *unstructured.Unstructured {
		dc := owner(t, "cassandra.datastax.com/v1beta1", "CassandraDatacenter", map[string]any{}).Object
		dc.SetName(name)
		dc.SetUID(types.UID("uid-" + name))
		return build.With(dc, controlledBy(top))
	}
	east, west := datacenter("east"), datacenter("west")
	in := observeSet(t, build.Lists{"k8ssandraclusters": objectList{top}, "cassandradatacenters": objectList{east, west},
		"statefulsets": objectList{build.Set("web", planned, controlledBy(east)), build.Set("db", controlledBy(west))}})
	if len(in.Owners) != 1 || in.Owners[0].Ref.Kind != "K8ssandraCluster" {
		t.Fatalf("%+v", in.Owners)
	}
	if len(in.Siblings) != 1 {
		t.Errorf("the stop of K8ssandraCluster main stops StatefulSet db, too, and %d siblings are known; it decides %s", len(in.Siblings),
			Decide(in))
	}
}

// TestObservedRecordsResumeOwner reads the records of paused owners, and the owners that they name.
func TestObservedRecordsResumeOwner(t *testing.T) {
	mysql := ownerWithPause(t).held(t, owners.ByPause, build.SleepID)
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
		{"the owner was not paused in time", build.Sleep(api.Planned, build.SleepDue(-time.Hour))},
	} {
		in := observeSet(t, build.Lists{"statefulsets": objectList{build.Set("web", build.WithSleep(row.sleep))},
			"mariadbs": objectList{mysql.Object}, "controllerrevisions": objectList{record.Revision}})
		file.Entry(t, row.situation, Decide(in).String())
	}
}

// TestPauseIsPreferredToACountOfZero: an operator whose stop is only a count of zero makes other pod templates for zero members. An
// operator with a stop of its own stops its software in its own order.
func TestPauseIsPreferredToACountOfZero(t *testing.T) {
	planned := build.Sleep(api.Planned, build.SleepDue(time.Minute))
	infinispan := owner(t, "infinispan.org/v1", "Infinispan", map[string]any{"replicas": int64(3)})
	for name, row := range map[string]struct {
		owner Owner
		want  owners.Means
	}{
		"a count of zero, and a pause": {rabbit(t, ""), owners.ByPause},
		"a stop of its own":            {ownerWithBoth(t), owners.ByStop},
		"a count of zero alone":        {infinispan, owners.ByStop},
	} {
		in := sleepAsking(planned, []Owner{row.owner})
		if by, p := chooseMeans(in, planned, row.owner); by != row.want || p.Kind != plan.KindNoop {
			t.Errorf("%s: %s, %s, want %s", name, by, p, row.want)
		}
	}
}

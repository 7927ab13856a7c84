package pauseowner

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

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
	f := &Function{client: kube.NewClient(lists.Serve(t)), settings: build.SleepSettings(), registry: owners.BuiltIn()}
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || in.Owners[0].Allowed || in.Owners[0].Object != nil {
		t.Errorf("%+v, %v", in.Owners, err)
	}
	lists["mariadbs"] = objectList{mysql.Object}
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

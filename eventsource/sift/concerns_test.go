package sift

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit/build"
)

const (
	added   = events.SourceAdd
	updated = events.SourceUpdate
	deleted = events.SourceDelete
)

// changeEvent returns the event that Knative's ApiServerSource sends for an object.
func changeEvent(t *testing.T, eventType, kind string, object any) event.Event {
	t.Helper()
	e := event.New()
	e.SetID("random")
	e.SetSource("https://10.0.0.1:443")
	e.SetType(eventType)
	e.SetSubject("/apis/apps/v1/namespaces/shop/statefulsets/web")
	e.SetExtension("kind", kind)
	if err := e.SetData(event.ApplicationJSON, object); err != nil {
		t.Fatal(err)
	}
	return e
}

func handle(t *testing.T, e event.Event) (*event.Event, error) {
	t.Helper()
	return New(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler)).Handle(t.Context(), e)
}

// functionsWoken returns the functions that the reply to the event names.
func functionsWoken(t *testing.T, eventType, kind string, object any) string {
	t.Helper()
	answer, err := handle(t, changeEvent(t, eventType, kind, object))
	if err != nil {
		t.Fatal(err)
	}
	if answer == nil {
		return ""
	}
	concerns, _ := answer.Extensions()["concerns"].(string)
	return concerns
}

type setRow struct {
	change  string
	status  *api.Resize
	options []build.Option
	want    string
}

func opts(options ...build.Option) []build.Option { return options }

// refusedFor stores the refusal of the set's request. It must follow the options that change the set.
func refusedFor(reason api.Reason, ago time.Duration) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		build.Status(build.Operation(api.Refused, func(s *api.Resize) {
			s.Request, s.Reason, s.RefusalDigest = set.Annotations[api.ResizeAnnotation], reason, operation.RefusalDigest(set)
			s.Finished = &metav1.Time{Time: time.Now().Add(-ago)}
		}))(set)
	})
}

// TestFunctionsWokenBySet: an event of a set wakes the functions of a resize that would act.
// Invariants: I3.
func TestFunctionsWokenBySet(t *testing.T) {
	counting0 := build.ReplicaCounts(1, 0)
	moving := func(phases ...api.MemberPhase) *api.Resize {
		return build.Operation(api.Moving, func(s *api.Resize) {
			for ordinal, phase := range phases {
				build.Members(phase, fmt.Sprintf("data-web-%d", ordinal))(s)
			}
		})
	}
	copying, swapping := moving(api.MemberCopying), moving(api.MemberSwapping)
	withoutTurn := moving(api.MemberWaiting)
	withoutTurn.TurnReturned = true
	unnamed := build.Operation(api.Moving, build.ReplacesSet, build.Members(api.MemberCopying, "data-web-0"),
		func(s *api.Resize) { s.Set.UID = "" })
	abort, retry := build.Annotation(api.AbortAnnotation, ""), build.Annotation(api.RetryAnnotation, "")
	rolledOut := build.Edit(func(set *appsv1.StatefulSet) { set.Status.UpdateRevision = "web-2" })
	asks, owned := build.Resize("data=128Mi"), build.ControlledBy("Database", "main")
	for name, row := range map[string]setRow{
		"a set without a request":                  {updated, nil, nil, ""},
		"a request that differs from the template": {updated, nil, opts(asks), "detect-resize"},
		"a request that the template meets":        {updated, nil, opts(build.Resize("data=64Mi")), ""},
		"a set that was added, with request auto":  {added, nil, opts(build.Resize("auto")), "detect-resize"},
		"an update of a set with request auto":     {updated, nil, opts(build.Resize("auto")), ""},
		"an operator's set was added, and its templates are the request": {added, nil, opts(owned,
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner)), "detect-resize"},
		"an operator's set was added": {added, nil, opts(owned), ""},
		"an update of an operator's set whose templates are the request": {updated, nil, opts(owned,
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner)), ""},
		"a request that is invalid":                {updated, nil, opts(build.Resize("much")), "detect-resize"},
		"a request for an unknown template":        {updated, nil, opts(build.Resize("db=1Gi")), "detect-resize"},
		"a request on a set that has not opted in": {updated, nil, opts(asks, build.Label(api.ManagedLabel, "")), ""},
		"a request on a set that is being deleted": {updated, nil, opts(asks, build.Deleting()), ""},
		"a set with a request is deleted":          {deleted, nil, opts(asks), ""},
		"a request that was refused":               {updated, nil, opts(asks, refusedFor(api.QuotaExceeded, time.Minute)), ""},
		"a request that was refused before the set changed": {updated, nil, opts(asks, refusedFor(api.RequestInvalid, time.Minute),
			build.Annotation(api.ResizeMethodAnnotation, "copy")), "detect-resize"},
		"a request that was refused before the pod template changed": {updated, nil, opts(asks, refusedFor(api.TemplateMounted, time.Minute),
			rolledOut), "detect-resize"},
		"a request that was refused before the set was scaled": {updated, nil, opts(asks, refusedFor(api.QuotaExceeded, time.Minute),
			build.Replicas(2), build.Generation(6)), ""},
		"a request that was refused before the pod template changed, and the set sleeps": {updated, nil,
			opts(asks, refusedFor(api.QuotaExceeded, time.Minute), rolledOut,
				build.WithSleep(build.Sleep(api.Asleep, build.SleepCause("paused"))), build.Paused()), "idle-timeout"},
		"a retry of a refused request": {updated, build.Operation(api.Refused), opts(asks, retry),
			"detect-resize"},
		"another request after a failure": {updated, build.Operation(api.Failed),
			opts(build.Resize("data=1Gi")), "detect-resize"},
		"the same request after a success": {updated, build.Operation(api.Succeeded), opts(asks), "detect-resize"},
		"a retry without a request":        {updated, build.Operation(api.Failed), opts(retry), "detect-resize"},
		"a retry of a refused sleep": {updated, nil, opts(retry, build.LastActivity(0),
			build.WithSleep(build.Sleep(api.Refused, build.SleepEnded(api.OwnerNotPausable, 0)))), ""},
		"a status that cannot be read": {updated, nil, opts(build.Annotation(api.StatusAnnotation, "{")),
			"detect-resize"},
		"planned":                    {updated, build.Operation(api.Planned), nil, "pause-owner"},
		"expanding: the claims grow": {updated, build.Operation(api.Expanding), nil, ""},
		"expanding: a user aborts": {updated, build.Operation(api.Expanding), opts(abort),
			"detect-resize restore"},
		"moving: members wait for their turn":        {updated, moving(api.MemberPending), nil, "backup"},
		"moving: a member is copied":                 {updated, copying, nil, "backup"},
		"moving: a member waits for the gate":        {updated, moving(api.MemberWaiting), nil, "backup restore"},
		"moving: a member must stop":                 {updated, moving(api.MemberStopping), nil, "restore"},
		"moving: the final pass":                     {updated, moving(api.MemberFinalPass), nil, "backup restore"},
		"moving: the claims of a member are swapped": {updated, swapping, nil, "restore"},
		"moving: a member starts":                    {updated, moving(api.MemberStarting), nil, "restore"},
		"moving: all members have moved":             {updated, moving(api.MemberMoved, api.MemberMoved), nil, "restore"},
		"moving: no member needs to move":            {updated, moving(), nil, "restore"},
		"moving: without a turn while it waits for an approval": {updated, withoutTurn, nil,
			"backup restore pause-owner"},
		"moving: one member has moved, another waits for its turn": {updated, moving(api.MemberMoved, api.MemberPending), nil, "backup"},
		"moving: one member starts, another is copied": {updated, moving(api.MemberStarting, api.MemberCopying), nil,
			"backup restore"},
		"moving: another client scales": {updated, copying, opts(build.Replicas(2), build.Generation(6)),
			"backup"},
		"moving: a user aborts":                            {updated, copying, opts(abort), "backup restore"},
		"moving: the set opts out":                         {deleted, copying, nil, "backup restore"},
		"moving: the set was deleted":                      {deleted, swapping, nil, "restore"},
		"moving: the new set was added":                    {added, unnamed, opts(build.UID("uid-2")), "backup restore"},
		"moving: the record has no UID of the new set yet": {updated, unnamed, opts(build.UID("uid-2")), "backup restore"},
		"finishing": {updated, build.Operation(api.Finishing), nil, "restore"},
		"finishing: no member of an owned set is ready": {updated, build.Operation(api.Finishing), opts(counting0, owned),
			"restore pause-owner"},
		"finishing: one member of an owned set is ready": {updated, build.Operation(api.Finishing),
			opts(build.Replicas(2), build.ReplicaCounts(2, 1), owned), "restore"},
		"reverting":                  {updated, build.Operation(api.Reverting), nil, "restore"},
		"a resize that failed":       {updated, build.Operation(api.Failed), opts(asks), ""},
		"a retry of a failed resize": {updated, build.Operation(api.Failed), opts(asks, retry), "detect-resize"},
		"an operation is active, and the set is being deleted": {added, copying, opts(build.Deleting()), "backup restore"},
		"an operation of another set with this name":           {updated, copying, opts(build.UID("uid-2")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := append(opts(build.Template("data", "64Mi", "fixed")), row.options...)
			if row.status != nil {
				options = append(options, build.Status(row.status))
			}
			if got := functionsWoken(t, row.change, "StatefulSet", build.Set("web", options...)); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

func TestFunctionsWokenByObjectsOfOperation(t *testing.T) {
	job := build.Job(0, 1)
	hook := api.Link{Operation: build.ID, Role: api.RoleHook, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: new(int)}
	done, counted := build.InPhase(corev1.PodSucceeded), build.Finalizers(batchv1.JobTrackingFinalizer)
	placed, pending := build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }), build.InPhase(corev1.PodPending)
	forged := api.Link{Operation: "x", Role: api.RoleMover, Namespace: "payroll", Set: api.SetRef{Name: "db"}}
	for name, row := range map[string]struct {
		change string
		kind   string
		object metav1.Object
		want   string
	}{
		"a claim without a link": {updated, "PersistentVolumeClaim", build.Claim("data-web-0", "1Gi"), ""},
		"a source changes": {updated, "PersistentVolumeClaim",
			build.Claim("data-web-0", "1Gi", build.Link(api.RoleSource, "data-web-0")), ""},
		"a source is being deleted": {updated, "PersistentVolumeClaim",
			build.Claim("data-web-0", "1Gi", build.Link(api.RoleSource, "data-web-0"), build.Deleting()), "restore"},
		"a source was deleted": {deleted, "PersistentVolumeClaim",
			build.Claim("data-web-0", "1Gi", build.Link(api.RoleSource, "data-web-0")), "restore"},
		"a target is bound": {updated, "PersistentVolumeClaim",
			build.Target("data-web-0", "1Gi"), ""},
		"a target is being deleted": {updated, "PersistentVolumeClaim",
			build.Target("data-web-0", "1Gi", build.Deleting()), ""},
		"a target was deleted": {deleted, "PersistentVolumeClaim",
			build.Target("data-web-0", "1Gi"), "restore"},
		"a successor is not bound": {added, "PersistentVolumeClaim",
			build.Claim("data-web-0", "1Gi", build.Link(api.RoleNewClaim, "data-web-0"), build.BoundTo("")), ""},
		"a successor is bound": {updated, "PersistentVolumeClaim",
			build.Claim("data-web-0", "1Gi", build.Link(api.RoleNewClaim, "data-web-0")), "restore"},
		"a mover is running": {updated, "Job", job, ""},
		"a mover succeeded":  {updated, "Job", build.Job(0, 1, build.Complete()), "backup"},
		"a mover failed": {updated, "Job", build.Job(0, 1,
			build.Failed("BackoffLimitExceeded", "")), "backup"},
		"a finished mover is being deleted": {updated, "Job", build.Job(0, 1, build.Complete(),
			build.Deleting()), ""},
		"a mover was deleted": {deleted, "Job", job, "restore"},
		"a hook has succeeded": {updated, "Job", build.Job(0, 1, build.Complete(),
			build.LinkOf(hook)), "restore"},
		"a hook has failed": {updated, "Job", build.Job(0, 1,
			build.Failed("BackoffLimitExceeded", ""), build.LinkOf(hook)), "restore"},
		"a hook is running":                                       {updated, "Job", build.Job(0, 1, build.LinkOf(hook)), ""},
		"a mover's pod has not started":                           {updated, "Pod", build.Mover(job, pending, counted), ""},
		"a mover's pod is scheduled":                              {updated, "Pod", build.Mover(job, placed, counted), "backup"},
		"a mover's pod has succeeded":                             {updated, "Pod", build.Mover(job, placed, done, counted), "backup"},
		"a mover's pod has succeeded, and its Job has counted it": {updated, "Pod", build.Mover(job, placed, done), ""},
		"a mover's pod is being deleted": {updated, "Pod", build.Mover(job, placed, done, counted,
			build.Deleting()), ""},
		"a mover's pod has failed": {updated, "Pod", build.Mover(job, placed,
			build.InPhase(corev1.PodFailed), counted), "backup"},
		"a held pod changes": {updated, "Pod", build.With(build.PodOf("web", 0, "data"),
			build.Held(0)), "restore"},
		"a held pod has stopped": {updated, "Pod", build.With(build.PodOf("web", 0, "data"),
			build.Held(0), build.Stopped()), "restore"},
		"a held pod was deleted": {deleted, "Pod", build.With(build.PodOf("web", 0, "data"),
			build.Held(0)), "restore"},
		"a mover's pod was deleted":     {deleted, "Pod", build.Mover(job), "restore backup"},
		"a link into another namespace": {deleted, "Job", build.Job(0, 1, build.LinkOf(forged)), ""},
		"a link with another operation than the label": {deleted, "Job", build.Job(0, 1,
			build.Label(api.OperationLabel, "other")), ""},
		"a link that is invalid": {deleted, "Job", build.Job(0, 1,
			build.Annotation(api.OperationAnnotation, "{")), ""},
		"another kind": {updated, "ConfigMap", build.Claim("x", "1Gi"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := functionsWoken(t, row.change, row.kind, row.object); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

func TestReplyContainsOnlyIdentityOfSet(t *testing.T) {
	job := build.Job(0, 1, build.Complete())
	answer, err := handle(t, changeEvent(t, updated, "Job", job))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := events.SetOf(*answer)
	if want := (events.Ref{Namespace: build.Namespace, Name: "web", Operation: build.ID}); err != nil || ref != want {
		t.Errorf("%+v, %v; want %+v", ref, err, want)
	}
	if answer.ID() != "uid-"+job.Name+"/rv-"+job.Name+"/backup" || answer.Type() != events.ObjectChanged {
		t.Errorf("id %s, type %s", answer.ID(), answer.Type())
	}
	again, _ := handle(t, changeEvent(t, updated, "Job", job))
	if again.ID() != answer.ID() {
		t.Error("two events for the same change have different ids")
	}
	secret := build.Set("web", build.Resize("much"), build.Annotation("password", "hunter2"))
	answer, _ = handle(t, changeEvent(t, updated, "StatefulSet", secret))
	var data map[string]any
	if err := json.Unmarshal(answer.Data(), &data); err != nil || len(data) != 2 || data["uid"] != "uid-web" ||
		data["resourceVersion"] != "rv-web" {
		t.Errorf("data %s (%v)", answer.Data(), err)
	}
}

func TestUnreadableObjectIsPermanentError(t *testing.T) {
	for _, kind := range []string{"StatefulSet", "PersistentVolumeClaim", "Job", "Pod"} {
		e := changeEvent(t, updated, kind, map[string]any{"metadata": 7})
		if answer, err := handle(t, e); answer != nil || !fault.IsPermanent(err) {
			t.Errorf("%s: answers %v, %v", kind, answer, err)
		}
	}
}

// TestPodWithOnlyOperationLabelWakesNoFunction: a user may set the label, but only the annotation is a link.
func TestPodWithOnlyOperationLabelWakesNoFunction(t *testing.T) {
	pod := build.Pod("x", nil, build.Label(api.OperationLabel, build.ID))
	if got := functionsWoken(t, deleted, "Pod", pod); got != "" {
		t.Errorf("wakes %q", got)
	}
	if got := functionsWoken(t, updated, "Pod", build.With(pod, build.InPhase(corev1.PodFailed))); got != "" {
		t.Errorf("wakes %q", got)
	}
}

// TestEventOfServerSideAppliedSetIsRead: the managedFields of such a set consist of many small objects, which must stay below the limits
// for JSON. The set has six variables and two probes.
func TestEventOfServerSideAppliedSetIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/applied-set.json")
	if err != nil {
		t.Fatal(err)
	}
	e := event.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType(events.SourceUpdate)
	e.SetExtension("kind", "StatefulSet")
	if err := e.SetData("application/json", text); err != nil {
		t.Fatal(err)
	}
	if _, err := Sift(e, time.Now(), time.Hour); err != nil {
		t.Error(err)
	}
}

// TestDeepScalerStopsNoSweep: a tenant stores a Scaler whose template is nested as deeply as the API server accepts (10,000 levels
// in one document). In a list it is two levels deeper, which no JSON decoder of Go accepts. The sweep must still find the other work.
func TestDeepScalerStopsNoSweep(t *testing.T) {
	deep := func(levels int) *v1alpha1.Scaler {
		text := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
		return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "deep"}, Spec: v1alpha1.ScalerSpec{Target: "x",
			Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}}}}
	}
	scaler := deep(9994)
	alone, err := json.Marshal(scaler)
	if err != nil || json.Unmarshal(alone, &v1alpha1.Scaler{}) != nil {
		t.Fatalf("the API server would not accept it alone: %v", err)
	}
	lists := build.EmptyLists()
	lists["scalers"] = []metav1.Object{scaler}
	lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
		build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
	to, tick := &sentEvents{}, event.New()
	tick.SetType(events.Tick)
	_, err = New(kube.NewClient(lists.Serve()), api.Settings{}, to, slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
	if err != nil || len(to.events) == 0 {
		t.Errorf("one Scaler of one tenant stops the sweep of the whole cluster: %d events, %.300v", len(to.events), err)
	}
}

// TestForgedLinkFailsNoSweep: a tenant may create a ControllerRevision with any link in its own namespace. A sweep must not fail
// because of it: the Broker would repeat the tick, and sweep the cluster again and again.
func TestForgedLinkFailsNoSweep(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(broker.Close)
	for name, link := range map[string]api.Link{
		"a line break in the name": {Operation: build.ID, Role: api.RoleStop, Namespace: "evil", Set: api.SetRef{Name: "a\nb", UID: "uid"}},
		"a control character in the UID": {Operation: build.ID, Role: api.RoleStop, Namespace: "evil",
			Set: api.SetRef{Name: "web", UID: "\x01"}},
		"a name in another script": {Operation: build.ID, Role: api.RoleStop, Namespace: "evil", Set: api.SetRef{Name: "ж", UID: "uid"}},
		"a long name": {Operation: build.ID, Role: api.RoleStop, Namespace: "evil",
			Set: api.SetRef{Name: strings.Repeat("x", 200_000), UID: "uid"}},
		"no UID": {Operation: build.ID, Role: api.RoleStop, Namespace: "evil", Set: api.SetRef{Name: "web"}},
	} {
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "evil", Name: api.StopRecordName(build.ID), UID: "u", ResourceVersion: "1",
			Labels: map[string]string{api.OperationLabel: build.ID}, Annotations: map[string]string{api.OperationAnnotation: link.Encode()}}}
		lists := build.EmptyLists()
		lists["controllerrevisions"] = []metav1.Object{revision}
		lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
			build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
		tick := event.New()
		tick.SetType(events.Tick)
		_, err := New(kube.NewClient(lists.Serve()), api.Settings{}, serve.NewSender(broker.URL, nil), slog.New(slog.DiscardHandler)).
			Handle(t.Context(), tick)
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

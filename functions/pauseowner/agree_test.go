package pauseowner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// rabbit is an owner of sets whose claims had 64Mi. It asks for the size if it is not empty.
func rabbit(t *testing.T, size string) Owner {
	t.Helper()
	persistence := map[string]any{}
	if size != "" {
		persistence["storage"] = size
	}
	return owner(t, "rabbitmq.com/v1beta1", "RabbitmqCluster", map[string]any{"replicas": int64(3), "persistence": persistence})
}

// pausedFor is the record of the owner that the resize has paused when the set had 64Mi. The owner has disagreed for an hour.
func pausedFor(t *testing.T, o Owner) OwnerRecord {
	t.Helper()
	r := o.held(t, owners.ByPause, build.ID).recorded(owners.ByPause)
	r.Row, r.Link.Operation, r.Controls = o.Row, build.ID, true
	return r.agreed(t, "64Mi").created(3 * time.Hour).disagreeing(time.Hour)
}

// agreed sets the size that the owner and the set had when the resize paused it.
func (r OwnerRecord) agreed(t *testing.T, size string) OwnerRecord {
	t.Helper()
	r.Object = r.Object.DeepCopy()
	pause, err := api.LoadPause(r.Object)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pause.Holders {
		pause.Holders[i].Fields = nil
		if size != "" {
			pause.Holders[i].Fields = []api.OwnerField{{Template: "data", Path: "spec.persistence.storage", Value: size}}
		}
	}
	annotations := r.Object.GetAnnotations()
	annotations[api.OwnerPausedAnnotation] = pause.Encode()
	r.Object.SetAnnotations(annotations)
	return r
}

// disagreeing sets since when the owner disagrees.
func (r OwnerRecord) disagreeing(ago time.Duration) OwnerRecord {
	r.Revision = r.Revision.DeepCopy()
	r.Revision.Annotations[api.DisagreesSinceAnnotation] = build.Now.Add(-ago).Format(time.RFC3339)
	return r
}

// stored lets an API server have the record.
func (r OwnerRecord) stored() OwnerRecord {
	r.Owner.Resource = "rabbitmqclusters"
	r.Revision.Data.Raw = r.Owner.Encode()
	r.Revision.Annotations[api.OperationAnnotation] = r.Link.Encode()
	r.Revision.Labels[api.OperationLabel] = r.Link.Operation
	r.Revision.Name = api.OwnerRecordName(r.Link.Operation, r.Owner.UID)
	return r
}

// afterResize is a set with an owner that stays paused.
func afterResize(record OwnerRecord, options ...build.Option) Input {
	in := Input{Observed: build.World(build.Set("web", options...)), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
	in.OwnerRecords[0].Sets = append(in.OwnerRecords[0].Sets, in.Set)
	return in
}

func policy(p api.OwnerPolicy) build.Option {
	return build.Annotation(api.OwnerPolicyAnnotation, string(p))
}

func moved(size string) build.Option { return build.Template("data", size, "slow") }

func resizeEnded(phase api.Phase, reason api.Reason) build.Option {
	return build.Status(build.Operation(phase, func(r *api.Resize) {
		r.Reason, r.Finished = reason, &metav1.Time{Time: build.Now.Add(-time.Minute)}
	}))
}

// TestPauseLastsUntilOwnerAgrees: an owner that asks for another size than a resize has given to the set stays paused, however the resize
// has ended. Each situation with a pause has a twin in which it ends.
func TestPauseLastsUntilOwnerAgrees(t *testing.T) {
	another := func(phase api.Phase) build.Option {
		return build.Status(build.Operation(phase, func(r *api.Resize) { r.Operation = "0123456789ac" }))
	}
	succeeded, new, former := resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi"), moved("64Mi")
	unknown := owner(t, "druid.apache.org/v1alpha1", "Druid", map[string]any{})
	agrees, differs := pausedFor(t, rabbit(t, "128Mi")), pausedFor(t, rabbit(t, "64Mi"))
	forAnother := func(r OwnerRecord) OwnerRecord { // the owner is paused for the other operation, too
		o := rabbit(t, "64Mi").held(t, owners.ByPause, build.ID, "0123456789ac")
		r.Object = o.Object
		return r.agreed(t, "64Mi")
	}
	ofSleep := pausedFor(t, rabbit(t, "64Mi")).agreed(t, "")
	moving, aborted := build.Status(build.Operation(api.Moving)), resizeEnded(api.Failed, api.Aborted)
	for name, tc := range map[string]struct {
		record  OwnerRecord
		options []build.Option
		want    api.Reason
	}{
		"it says the former size":       {differs, []build.Option{succeeded, new}, api.OwnerStays},
		"it says the new size":          {agrees, []build.Option{succeeded, new}, api.OwnerResumed},
		"it says the new size in bytes": {pausedFor(t, rabbit(t, "134217728")), []build.Option{succeeded, new}, api.OwnerResumed},
		"it says no size":               {pausedFor(t, rabbit(t, "")), []build.Option{succeeded, new}, api.OwnerResumed},
		"the members have their volumes": {differs, []build.Option{build.Status(build.Operation(api.Finishing)), new},
			api.OwnerStays},
		"the resize has failed after the first move":  {differs, []build.Option{aborted, new}, api.OwnerStays},
		"the resize has failed before the first move": {differs, []build.Option{aborted, former}, api.OwnerResumed},
		"another client has made the claims larger": {differs, []build.Option{resizeEnded(api.Failed, api.ClaimsGrown), new},
			api.OwnerStays},
		"another request is refused":                {differs, []build.Option{another(api.Refused), new}, api.OwnerStays},
		"another request is refused, and it agrees": {agrees, []build.Option{another(api.Refused), new}, api.OwnerResumed},
		"another resize runs without a pause":       {differs, []build.Option{another(api.Moving), new}, api.OwnerStays},
		"another resize runs, which has paused it":  {forAnother(differs), []build.Option{another(api.Moving), new}, api.OwnerResumed},
		"another resize, which has paused it, ends": {forAnother(differs), []build.Option{another(api.Failed), new}, api.OwnerStays},
		"the set has lost the record":               {differs, []build.Option{new}, api.OwnerStays},
		"the set is as before":                      {pausedFor(t, rabbit(t, "32Mi")), []build.Option{succeeded, former}, api.OwnerResumed},
		"the set has other templates": {differs, []build.Option{succeeded, build.Template("logs", "1Mi", "")},
			api.OwnerResumed},
		"it was paused for a sleep": {ofSleep, []build.Option{succeeded, new}, api.OwnerResumed},
		"users end the wait":        {differs, []build.Option{succeeded, new, policy(api.OwnerIgnore)}, api.OwnerResumed},
		"users opt the set out": {differs, []build.Option{succeeded, new, build.Label(api.ManagedLabel, "false")},
			api.OwnerResumed},
		"a day is not over":              {differs.disagreeing(23 * time.Hour), []build.Option{succeeded, new}, api.OwnerStays},
		"a day is over":                  {differs.disagreeing(25 * time.Hour), []build.Option{succeeded, new}, api.OwnerResumed},
		"it is being deleted":            {pausedFor(t, rabbit(t, "64Mi").deleting()), []build.Option{succeeded, new}, api.OwnerResumed},
		"no row knows where its size is": {pausedFor(t, unknown), []build.Option{succeeded, new}, api.OwnerResumed},
		"its members are still copied":   {agrees, []build.Option{moving, new}, api.OwnerStays},
		"only a class that the owner has never had is different": {agrees, []build.Option{succeeded, build.Template("data", "128Mi", "gold")},
			api.OwnerResumed},
		"only the size is different, which agrees": {agrees, []build.Option{succeeded, new}, api.OwnerResumed},
	} {
		if p := Decide(afterResize(tc.record, tc.options...)); p.Reason != tc.want {
			t.Errorf("%s: the plan is %s, want %s", name, p, tc.want)
		}
	}
}

// TestWaitForOwnerBeginsOnce: the time when the wait begins is stored beside the pause. If that is not possible, the wait counts from the
// beginning of the pause. If the set has no record, an Event says why the owner stays paused.
func TestWaitForOwnerBeginsOnce(t *testing.T) {
	record := pausedFor(t, rabbit(t, "64Mi"))
	delete(record.Revision.Annotations, api.DisagreesSinceAnnotation)
	in := afterResize(record, resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi"))
	p := Decide(in)
	if len(p.Actions) != 1 || !strings.Contains(p.String(), "+disagrees-since") {
		t.Errorf("the first plan does not store the time: %s", p)
	}
	if p := Decide(afterResize(record.disagreeing(0), resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi"))); strings.Contains(
		p.String(), "disagrees-since") {
		t.Errorf("the next plan stores the time again: %s", p)
	}
	if p := Decide(afterResize(record, moved("128Mi"))); len(p.Actions) != 2 || !strings.Contains(p.String(), "the data is safe") {
		t.Errorf("the set has no record, and no Event says why: %s", p)
	}
	in.Failures = plan.Failures{rejectedWrite(plan.ControllerRevisions, record.Revision.Name, errors.New("controllerrevisions is forbidden"))}
	if p := Decide(in); p.Reason != api.OwnerStays || !strings.Contains(p.String(), "the data is safe") {
		t.Errorf("the time cannot be stored, and the pause ends or is not reported: %s", p)
	}
	in.OwnerRecords[0] = in.OwnerRecords[0].created(25 * time.Hour)
	if p := Decide(in); p.Reason != api.OwnerResumed && !strings.Contains(p.String(), "cannot be deleted") {
		t.Errorf("the time cannot be stored, and the pause has no end: %s", p)
	}
}

// TestUpdatedOwnerHasSizeOfSet: one write changes the size and ends the pause, so its operator never sees the former size.
func TestUpdatedOwnerHasSizeOfSet(t *testing.T) {
	in := afterResize(pausedFor(t, rabbit(t, "64Mi")), resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi"),
		policy(api.OwnerUpdate))
	in.Consent = api.ConsentToUpdate
	record := in.OwnerRecords[0]
	actions := Decide(in).Actions
	object := patched(t, record.Object, actions[:1]) // the other one deletes the record of the pause
	size, _, err := unstructured.NestedString(object.Object, "spec", "persistence", "storage")
	if err != nil || size != "128Mi" || object.GetAnnotations()[api.OwnerPausedAnnotation] != "" {
		t.Errorf("the owner has %q and is held by %q, %v", size, object.GetAnnotations()[api.OwnerPausedAnnotation], err)
	}
}

// TestOwnerIsUpdatedOnlyIfAllAgree: the policy of a set is not enough to change its owner. The pause lasts, and the message says what is
// missing.
func TestOwnerIsUpdatedOnlyIfAllAgree(t *testing.T) {
	sibling := func(size string, options ...build.Option) *appsv1.StatefulSet {
		return build.Set("db", append(options, build.UID("uid-db"), build.Template("data", size, "slow"))...)
	}
	resizing := func(phase api.Phase) build.Option {
		return build.Status(build.Operation(phase, func(r *api.Resize) { r.Set = api.SetRef{Name: "db", UID: "uid-db"} }))
	}
	with := func(sibling *appsv1.StatefulSet) func(in *Input) {
		return func(in *Input) { in.OwnerRecords[0].Sets = append(in.OwnerRecords[0].Sets, sibling) }
	}
	ended := func(phase api.Phase) func(in *Input) {
		return func(in *Input) { resizeEnded(phase, api.Aborted)(in.Set) }
	}
	onlyPause := func(in *Input) { delete(in.Set.Annotations, api.OwnerPolicyAnnotation) }
	for name, tc := range map[string]struct {
		change func(in *Input)
		says   string // empty: the owner is changed
	}{
		"all agree": {func(*Input) {}, ""},
		"the namespace consents to pauses only": {func(in *Input) { in.Consent = api.ConsentToPause },
			"label namespace shop drydock.dev/pause-owners=update --overwrite"},
		"the namespace does not consent": {func(in *Input) { in.Consent = "" }, "label namespace shop drydock.dev/pause-owners=update"},
		"another resource controls the set": {func(in *Input) { in.OwnerRecords[0].Controls = false },
			"has another controller now"},
		"another client has written the field meanwhile": {func(in *Input) {
			record := &in.OwnerRecords[0]
			record.Object = record.Object.DeepCopy()
			if err := unstructured.SetNestedField(record.Object.Object, "256Mi", "spec", "persistence", "storage"); err != nil {
				t.Fatal(err)
			}
		}, "another client has written spec.persistence.storage since its operator last worked"},
		"the resize has failed":       {ended(api.Failed), "only if the latest resize has succeeded"},
		"another request was refused": {ended(api.Refused), "only if the latest resize has succeeded"},
		"the API server rejects it": {func(in *Input) {
			in.Failures = plan.Failures{rejectedWrite(in.OwnerRecords[0].Resource, "main", errors.New("storage may not shrink"))}
		}, "storage may not shrink"},
		"its other set has another size": {with(sibling("64Mi")),
			"has 64Mi instead of 128Mi. Resize that first: kubectl drydock resize -n shop sts/db data=128Mi"},
		"its other set has the same size":     {with(sibling("128Mi")), ""},
		"its other set is being resized":      {with(sibling("128Mi", resizing(api.Moving))), "when the resize of StatefulSet db has ended"},
		"its other set stops no pod any more": {with(sibling("128Mi", resizing(api.Finishing))), ""},
		"the user wants only the pause":       {onlyPause, "resize -n shop sts/web --update-owner"},
		"the user wants only the pause, and the other set has another size": {func(in *Input) {
			onlyPause(in)
			with(sibling("64Mi"))(in)
		}, "sts/db data=128Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			in := afterResize(pausedFor(t, rabbit(t, "64Mi")), resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi"),
				policy(api.OwnerUpdate))
			in.Consent = api.ConsentToUpdate
			tc.change(&in)
			p := Decide(in)
			if want := tc.says == ""; want != (p.Reason == api.OwnerResumed) || writesTo(p, in.OwnerRecords[0].Resource) != want ||
				!strings.Contains(p.String(), tc.says) {
				t.Errorf("%s", p)
			}
		})
	}
}

// TestWhatDecidesAboutUpdateIsRead: the controller of the set, the owner's opted-in sets, and the consent of the namespace, at the time of
// the write.
func TestWhatDecidesAboutUpdateIsRead(t *testing.T) {
	o := rabbit(t, "64Mi")
	byMain := controlledBy(o.Object)
	namespace := &corev1.Namespace{}
	namespace.Name, namespace.Labels = build.Namespace, map[string]string{api.PauseOwnersLabel: string(api.ConsentToUpdate)}
	read := func(controls bool, options ...build.Option) (OwnerRecord, api.OwnerConsent) {
		record := pausedFor(t, o).stored()
		if controls {
			options = append(options, byMain)
		}
		sets := objectList{build.Set("web", append(options, moved("128Mi"))...), build.Set("db", byMain, build.UID("uid-db")),
			build.Set("out", byMain, build.UID("uid-out"), build.Label(api.ManagedLabel, "")), build.Set("else", build.UID("uid-else"))}
		in := observeSet(t, build.Lists{"statefulsets": sets, "rabbitmqclusters": objectList{record.Object}, "namespaces": objectList{namespace},
			"controllerrevisions": objectList{record.Revision}})
		if len(in.OwnerRecords) != 1 || len(in.disagreements(in.OwnerRecords[0])) == 0 {
			t.Fatalf("the owner does not disagree: %+v", in.OwnerRecords)
		}
		return in.OwnerRecords[0], in.Consent
	}
	record, consent := read(true, policy(api.OwnerUpdate))
	if !record.Controls || consent != api.ConsentToUpdate || len(record.Sets) != 2 || record.Sets[0].Name != "db" {
		t.Errorf("controls %v, consent %q, %d sets", record.Controls, consent, len(record.Sets))
	}
	if record, consent := read(true); !record.Controls || consent != "" {
		t.Errorf("without the policy update: controls %v, consent %q", record.Controls, consent)
	}
	if record, consent := read(false, policy(api.OwnerUpdate)); record.Controls || consent != "" || len(record.Sets) > 0 {
		t.Errorf("without a controller: controls %v, consent %q", record.Controls, consent)
	}
}

// TestNextResizeKeepsWhatOperatorLastSaw: a resize after another one waits for what the operator last worked with. It takes that over only
// together with the pause: if the pause of the earlier resize has ended, the operator has worked since.
func TestNextResizeKeepsWhatOperatorLastSaw(t *testing.T) {
	resize := build.Operation(api.Planned, func(r *api.Resize) { r.Operation = "0123456789ac" })
	next := func(o Owner, size string) []api.OwnerField {
		in := afterResize(pausedFor(t, o), build.Status(resize), moved(size))
		actions, err := o.Row.Hold(owners.ByPause, o.Resource, o.Object, in.holderOf(resize, o))
		if err != nil {
			t.Fatal(err)
		}
		return owners.HolderOf(patched(t, o.Object, actions), resize.Operation, "web").Fields
	}
	field := func(value string) []api.OwnerField {
		return []api.OwnerField{{Template: "data", Path: "spec.persistence.storage", Value: value}}
	}
	paused, resumed := rabbit(t, "64Mi"), rabbit(t, "128Mi")
	paused.Object = pausedFor(t, paused).Object
	for name, row := range map[string]struct {
		owner Owner
		want  []api.OwnerField
	}{
		"it is paused for an earlier resize":                                                {paused, field("64Mi")},
		"the earlier pause has ended in agreement":                                          {resumed, field("128Mi")},
		"the earlier pause has ended without agreement, and the operator still can undo it": {rabbit(t, "64Mi"), field("128Mi")},
	} {
		if got := next(row.owner, "128Mi"); !slices.Equal(got, row.want) {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
	sleep := build.Sleep(api.Planned)
	if h := afterResize(pausedFor(t, paused), moved("128Mi")).holderOf(sleep, paused); len(h.Fields) > 0 {
		t.Errorf("a sleep changes no template, and waits for %+v", h.Fields)
	}
}

// TestDisagreementIsReportedOnce: the record says why the owner stays paused, and what to do. A later request that was refused takes over
// the report.
func TestDisagreementIsReportedOnce(t *testing.T) {
	for _, id := range []string{build.ID, "0123456789ac"} {
		resize := build.Operation(api.Refused, func(r *api.Resize) { r.Operation = id })
		in := afterResize(pausedFor(t, rabbit(t, "64Mi")), build.Status(resize), moved("128Mi"))
		p := Decide(in)
		for _, word := range []string{"the data is safe", "RabbitmqCluster main",
			"spec.persistence.storage is 64Mi, and the StatefulSet has 128Mi",
			"kubectl drydock resize -n shop sts/web --update-owner", "drydock.dev/owner-policy=ignore", "It ends by itself at 2"} {
			if !strings.Contains(p.String(), word) {
				t.Errorf("it does not say %q: %s", word, p)
			}
		}
		reported := resize.Clone()
		operations, err := in.setOperations()
		if err != nil {
			t.Fatal(err)
		}
		_, reported.OwnerProblem = in.awaitAgreement(operations, in.OwnerRecords[0])
		in.Set = build.Set("web", build.Status(reported), moved("128Mi"))
		if again := Decide(in); again.Kind != plan.KindNoop {
			t.Errorf("the next tick writes again: %s", again)
		}
		agreeing := afterResize(pausedFor(t, rabbit(t, "128Mi")), build.Status(reported), moved("128Mi"))
		p = Decide(agreeing)
		if last := p.Actions[len(p.Actions)-1]; p.Reason != api.OwnerResumed || build.Stored(p) == nil || last.Resource != plan.StatefulSets {
			t.Errorf("the report does not go as the last step: %s", p)
		}
		agreeing.OwnerRecords = nil
		if p := Decide(agreeing); build.Stored(p) == nil || build.Stored(p).OwnerProblem != "" {
			t.Errorf("the record still says that it is paused: %s", p)
		}
	}
}

// TestRejectionOfUpdateIsReportedOnce: many webhooks answer with an id of the request. Such a rejection is the same news at every tick.
func TestRejectionOfUpdateIsReportedOnce(t *testing.T) {
	resize := build.Operation(api.Succeeded)
	for i, answer := range []string{"denied, request 7f3a91", "denied, request 7f3a92", "shrinks are denied, request 7f3a93"} {
		in := afterResize(pausedFor(t, rabbit(t, "64Mi")), build.Status(resize), moved("128Mi"), policy(api.OwnerUpdate))
		in.Consent = api.ConsentToUpdate
		in.Failures = plan.Failures{rejectedWrite(in.OwnerRecords[0].Resource, "main", errors.New(answer))}
		p := Decide(in)
		if news := i != 1; news != (p.Kind == plan.KindDo) {
			t.Errorf("%s: %s", answer, p)
		}
		if stored := build.Stored(p); stored != nil {
			resize = stored
		}
	}
}

// TestLostSettingsOfOwnerAreReported: a tool removes the annotation of the owner, but not the label that pauses it. Nobody else could know
// that it must be removed.
func TestLostSettingsOfOwnerAreReported(t *testing.T) {
	for paused, want := range map[string]bool{"true": true, "": false} {
		record := pausedFor(t, rabbit(t, "128Mi"))
		record.Object = record.Object.DeepCopy()
		record.Object.SetAnnotations(nil)
		record.Object.SetLabels(map[string]string{"rabbitmq.com/pauseReconciliation": paused})
		p := Decide(afterResize(record, resizeEnded(api.Succeeded, api.ResizeCompleted), moved("128Mi")))
		if p.Reason != api.OwnerResumed || writesTo(p, record.Resource) || strings.Contains(p.String(), "is still held by a pause") != want {
			t.Errorf("label %q: %s", paused, p)
		}
	}
}

// TestRecordOfAnotherSetEndsNoPause: who may create a ControllerRevision, but may change neither StatefulSets nor the owner, writes a
// record of the running resize for a set that does not exist. With its own set, the record ends the pause.
func TestRecordOfAnotherSetEndsNoPause(t *testing.T) {
	for set, ends := range map[string]bool{"bait": false, "web": true} {
		record := pausedFor(t, rabbit(t, "64Mi"))
		record.Link.Set = api.SetRef{Name: set}
		in := Input{Observed: build.World(), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
		in.Name = set
		if p := Decide(in); writesTo(p, record.Resource) != ends {
			t.Errorf("a record of set %s: %s", set, p)
		}
	}
}

// TestWaitEndsWhileNextResizeWaits: the next resize may wait for its turn for long. Meanwhile a user or the limit of a day ends the pause
// for the earlier one, and nothing else does.
func TestWaitEndsWhileNextResizeWaits(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"), build.DerivedID)
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	full := turnsOf(t, turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true), own)
	for name, row := range map[string]struct {
		policy api.OwnerPolicy
		since  time.Duration
		ends   bool
	}{
		"the pause lasts":        {api.OwnerPause, time.Hour, false},
		"a user ends it":         {api.OwnerIgnore, time.Hour, true},
		"its time is over":       {api.OwnerPause, 25 * time.Hour, true},
		"both, at the same time": {api.OwnerIgnore, 25 * time.Hour, true},
	} {
		next, ended := planned, false
		for range 5 {
			record := pausedFor(t, rabbit(t, "64Mi")).disagreeing(row.since)
			in := afterResize(record, build.Status(next), moved("128Mi"), policy(row.policy))
			in.Settings, in.Turns = build.Settings(), full
			p := Decide(in)
			ended = ended || writesTo(p, record.Resource)
			if stored := build.Stored(p); stored != nil {
				next = stored
			}
		}
		if ended != row.ends {
			t.Errorf("%s: it has ended: %v", name, ended)
		}
	}
	soon := build.Operation(api.Planned, build.DerivedID, func(r *api.Resize) { r.Deadline = operation.Moment(time.Now().Add(time.Hour)) })
	record := pausedFor(t, rabbit(t, "64Mi")).stored()
	in := observeSet(t, build.Lists{"statefulsets": objectList{build.Set("web", build.Status(soon), policy(api.OwnerIgnore))},
		"rabbitmqclusters": objectList{record.Object}, "controllerrevisions": objectList{record.Revision}})
	if len(in.OwnerRecords) != 1 || in.OwnerRecords[0].Object == nil {
		t.Errorf("the owner of the earlier pause is not read: %+v", in.OwnerRecords)
	}
}

// TestOwnerIsResumedWhileTheNextResizeWaits: a sleep has ended, and its owner is still paused: the event of its end was late, and a resize
// that was requested during the sleep is planned already. The resize waits for its turn, without a time limit. Until then, the owner must
// not stay paused.
// Invariants: I5.
func TestOwnerIsResumedWhileTheNextResizeWaits(t *testing.T) {
	planned := build.Operation(api.Planned, build.Due(time.Minute), build.Members(api.MemberPending, "data-web-0"), build.DerivedID)
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	full := turnsOf(t, turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true), own)
	for name, row := range map[string]struct {
		sleep  *api.Sleep
		paused bool
	}{
		"the sleep has ended": {build.Sleep(api.Succeeded, build.SleepEnded(api.Awake, time.Second)), false},
		"the set sleeps":      {build.Sleep(api.Asleep), true},
	} {
		t.Run(name, func(t *testing.T) {
			keda := kedaScaler(t).held(t, owners.ByPause, build.SleepID)
			resize := planned
			for range 5 {
				record := keda.recorded(owners.ByPause)
				record.Row = keda.Row
				in := Input{Namespace: build.Namespace, Settings: build.Settings(), Turns: full,
					OwnerRecords: []OwnerRecord{record}, Owners: []Owner{keda}}
				in.Observed = build.World(build.Set("web", build.Status(resize), build.Replicas(3), build.ReplicaCounts(3, 3),
					build.WithSleep(row.sleep)))
				p := Decide(in)
				t.Logf("%s", p)
				if stored := build.Stored(p); stored != nil {
					resize = stored
				}
				for _, a := range p.Actions {
					if a.Resource == keda.Resource {
						keda.Object = patched(t, keda.Object, []plan.Action{a})
					}
				}
			}
			if paused := keda.Row.Held(owners.ByPause, keda.Object); paused != row.paused {
				t.Errorf("the owner is paused: %t, want %t", paused, row.paused)
			}
		})
	}
}

package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestVolumeTrustNeedsJournalAndAge: users can write to sets and claims, and can create claims that get volumes.
func TestVolumeTrustNeedsJournalAndAge(t *testing.T) {
	record, claim := movingOne(api.MemberSwapping), build.Claim(web0, "64Mi")
	written, err := api.LoadResize(setWith(record)[0].(*appsv1.StatefulSet))
	if err != nil {
		t.Fatal(err)
	}
	if journalAgrees(written, &api.Link{Claim: "data-payroll-0", Role: api.RoleTarget}, new0) {
		t.Error("a link is trusted although the journal does not name its claim")
	}
	aged := objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), build.Age(time.Minute))}
	copyOf := func(age time.Duration) objects {
		return objects{build.VolumeOf(build.Target(web0, "128Mi"), build.Age(age))}
	}
	for name, row := range map[string]struct {
		in     Input
		volume string
		want   bool
	}{
		"it has a temporary claim of the operation": {situation(aged, target(web0)[:1], copyOf(time.Second)), new0,
			true},
		"it has one, and another clock says that it is older":           {situation(aged, target(web0)[:1], copyOf(time.Hour)), new0, true},
		"its temporary claim is gone, and it is younger than that":      {situation(aged, copyOf(time.Second)), new0, true},
		"its temporary claim is gone, and it is older than the journal": {situation(aged, copyOf(time.Hour)), new0, false},
		"it is younger than the journal, but was made for another claim": {
			situation(aged, target(web0)[:1], objects{claim, build.VolumeOf(claim, build.Age(time.Second))}), old0, false},
	} {
		if got := provisionedForOperation(row.in, id, web0, row.in.Volumes[row.volume]); got != row.want {
			t.Errorf("%s: %t, want %t", name, got, row.want)
		}
	}
}

// TestOperationNeedsJournalAfterFirstChange: only the journal shows which volumes belong to the operation.
func TestOperationNeedsJournalAfterFirstChange(t *testing.T) {
	for name, row := range map[string]struct {
		objects objects
		want    bool
	}{
		"its pod runs on its claim":     {append(untouchedClaim(web0), pod(0)...), true},
		"its pod is held":               {append(untouchedClaim(web0), heldPodOf(0)...), false},
		"its claim is gone":             {pod(0), false},
		"its claim is being deleted":    {append(objects{build.Claim(web0, "64Mi", build.Deleting())}, pod(0)...), false},
		"it has no pod, and its claim":  {untouchedClaim(web0), true},
		"it has neither pod, nor claim": {nil, false},
	} {
		record := givenUp(api.MemberPending)
		if got := nothingTouched(situation(setWith(record), row.objects), record); got != row.want {
			t.Errorf("%s: %t, want %t", name, got, row.want)
		}
	}
}

// TestTidyInRareSituations: the journal and the links on the volumes decide what happens to the objects of an ended operation.
func TestTidyInRareSituations(t *testing.T) {
	finishing := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	reverting := givenUp(api.MemberKept)
	unused := build.VolumeOf(build.Target(web0, "128Mi"), build.Released(), build.Retained(api.RoleTarget, web0))
	ofOthers := build.With(build.Claim("data-web-9", "64Mi"), build.BoundTo("pv-x"))
	foreign := build.VolumeOf(ofOthers, build.Label(api.OperationLabel, "ba9876543210"))
	again := func(r *api.Resize) { r.Members[0].Claims[0].NewVolume = "pv-second" }
	second := build.VolumeOf(build.Target(web0, "128Mi", build.BoundTo("pv-second")), build.Released(), build.Retained(api.RoleTarget, web0))
	agedJournal := func(age time.Duration) objects {
		return objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), build.Age(age))}
	}
	made := build.With(build.VolumeOf(build.Target(web0, "128Mi"), build.Released(), build.Retained(api.RoleTarget, web0)),
		build.Age(10*time.Minute))
	check(t,
		testCase{"a copy that is already retained", situation(setWith(finishing), journalOf(web0), swappedClaim(web0),
			objects{build.VolumeOf(build.Target(web0, "128Mi", build.BoundTo("pv-first")), build.Released(), build.Retained(api.RoleOldVolume,
				web0),
				build.Annotation(api.RetainedUntilAnnotation, "2026-03-02T12:00:00Z"))}, pod(0))},
		testCase{"the record names the second copy",
			situation(setWith(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0), again)),
				journalOf(web0), source(web0), objects{second}, pod(0))},
		testCase{"a volume of another claim that the record names",
			situation(setWith(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0),
				func(r *api.Resize) { r.Members[0].Claims[0].NewVolume = "pv-x" })), journalOf(web0), source(web0),
				objects{ofOthers, foreign}, pod(0))},
		testCase{"an unused copy of an operation that was given up",
			situation(setWith(reverting), journalOf(web0), source(web0), objects{unused}, pod(0))},
		testCase{"an unused copy that is older than the journal is kept",
			situation(setWith(reverting), agedJournal(time.Minute), source(web0), objects{made},
				pod(0))},
	)
}

// TestCopiesBelongToOneClaim: a volume that is linked to another claim is no copy for this one.
func TestCopiesBelongToOneClaim(t *testing.T) {
	in := situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), target(web0), target(web1))
	move := movingOne(api.MemberSwapping).Move(web0)
	move.NewVolume = "" // only the temporary claim tells
	if got := copiesOf(in, id, move); len(got) != 1 || got[0] != new0 {
		t.Errorf("the copies of claim %s are %v, want %s", web0, got, new0)
	}
}

// TestSetWithoutJournalMetadataIsAccepted: a set works without the metadata that the journal keeps.
func TestSetWithoutJournalMetadataIsAccepted(t *testing.T) {
	record := build.Operation(api.Moving, build.ReplacesSet, build.DerivedID)
	if metadata := setMetadata(situation(setWithOldTemplate(record)), record); len(metadata.ManagedFields) > 0 {
		t.Errorf("metadata without a journal: %+v", metadata)
	}
	damaged := build.Journal(record, build.Annotation(api.SetMetadataAnnotation, `{"managedFields":[{"manager":"a"}],"blockingOwners":7}`))
	if metadata := setMetadata(situation(setWithOldTemplate(record), objects{damaged}), record); len(metadata.ManagedFields) > 0 {
		t.Errorf("damaged metadata is used: %+v", metadata)
	}
}

// TestTidyLeavesRetainedAndForeignVolumes: such volumes are not written to, whatever the record names.
func TestTidyLeavesRetainedAndForeignVolumes(t *testing.T) {
	claim := build.Claim(web0, "64Mi")
	link := api.Link{Operation: "ba9876543210", Role: api.RoleTarget, Namespace: build.Namespace, Set: api.SetRef{Name: "web",
		UID: "uid-web"}, Claim: web0}
	for name, volume := range map[string]*corev1.PersistentVolume{
		"a copy in its window": build.VolumeOf(build.Target(web0, "128Mi"), build.Released(), build.Retained(api.RoleOldVolume, web0)),
		"a copy of another operation": build.VolumeOf(build.Claim("data-web-9", "64Mi"), build.Released(), build.LinkOf(link),
			build.Label(api.OperationLabel, link.Operation)),
	} {
		e := endedClaim{operation: id, name: web0, oldVolume: old0, copies: []string{volume.Name}}
		if patch := e.tidyCopy(situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0)), claim, volume); !patch.Empty() {
			t.Errorf("%s: %v", name, patch.Actions())
		}
	}
}

// TestForgedRecordIsNotTrusted: every user who may edit the set can write its record, but only Drydock and cluster administrators can
// write the journal.
func TestForgedRecordIsNotTrusted(t *testing.T) {
	names := func(change func(*api.Move)) objects {
		return setWith(movingOne(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { change(&m.Claims[0]) })))
	}
	payroll := objects{build.VolumeOf(build.Claim("data-payroll-0", "64Mi"), build.Released())}
	own := append(journalOf(web0), heldPodOf(0)...)
	back := build.RollbackOf("ba9876543210")
	check(t,
		testCase{"an old volume that the claim does not have",
			situation(names(func(m *api.Move) { m.OldVolume = "pv-data-payroll-0" }), own,
				source(web0), copyVolume(web0), payroll)},
		testCase{"a volume of another namespace, which is not read",
			situation(names(func(m *api.Move) { m.OldVolume = "pv-elsewhere" }), own, source(web0), copyVolume(web0))},
		testCase{"a claim that the journal does not name",
			situation(names(func(m *api.Move) { m.Claim = "data-payroll-0" }), own, source(web0),
				copyVolume(web0))},
		testCase{"when it is given up, the volume of others is left alone, too",
			situation(setWith(givenUp(api.MemberKept, build.EditMember(0,
				func(m *api.Member) { m.Claims[0].NewVolume = "pv-data-payroll-0" }))),
				journalOf(web0), pod(0), source(web0), payroll)},
		testCase{"there is no journal yet: backup writes it first",
			situation(setWith(movingOne(api.MemberPending, build.DerivedID)), pod(0), untouchedClaim(web0))},
		testCase{"there is no journal, and the id does not derive from the set",
			situation(setWith(movingOne(api.MemberSwapping)), heldPodOf(0), source(web0), copyVolume(web0))},
		testCase{"there is no journal, although a member was stopped",
			situation(setWith(movingOne(api.MemberStopping, build.DerivedID)), pod(0), untouchedClaim(web0))},
		testCase{"the journal cannot be read", situation(setWith(movingOne(api.MemberSwapping)),
			objects{build.With(journalOf(web0)[0], build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))},
			heldPodOf(0), source(web0), copyVolume(web0))},
		testCase{"given up without journal while the pod is held: the record is not trusted",
			situation(setWith(givenUp(api.MemberSwapping)), heldPodOf(0), oldVolume(web0), copyVolume(web0))},
		testCase{"given up before it had a journal: it ends", situation(setWith(givenUp(api.MemberPending)), pod(0), untouchedClaim(web0))},
		testCase{"a record that cannot be read",
			situation(objects{build.Set("web", build.Annotation(api.StatusAnnotation, "{}"))}, journalOf(web0),
				heldPodOf(0), source(web0))},
		testCase{"a rollback, which copies nothing, whose member is in its final pass: the record cannot be read",
			situation(setWith(movingOne(api.MemberFinalPass, back)), journalOf(web0), pod(0), source(web0))},
		testCase{"the same member in a resize: its hold was removed during the final pass",
			situation(setWith(movingOne(api.MemberFinalPass)), journalOf(web0), pod(0), source(web0))},
		testCase{"a record of another set", situation(setWith(movingOne(api.MemberSwapping), build.UID("uid-2")), source(web0))},
		testCase{"a templates-only record whose id does not match the set",
			situation(setWithOldTemplate(build.Operation(api.Moving, build.ReplacesSet)), pod(0))},
		testCase{"planned: pause-owner is next", situation(setWith(build.Operation(api.Planned)))},
		testCase{"refused: nothing was changed", situation(setWith(build.Operation(api.Refused)))},
		testCase{"a set without a record", situation(objects{build.Set("web")})},
		testCase{"no set at all", situation()},
	)
}

// retiredVolume is an old volume that is retained until the time.
func retiredVolume(name, until string) *corev1.PersistentVolume {
	claim := build.Claim(name, "64Mi")
	return build.VolumeOf(claim, build.Released(), build.Retained(api.RoleOldVolume, name),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

// TestOldVolumesAreKeptForRetention: after the retention, their own reclaim policy applies again.
func TestOldVolumesAreKeptForRetention(t *testing.T) {
	const over, open = "2026-03-01T11:59:00Z", "2026-03-01T12:01:00Z"
	done := setWith(build.Operation(api.Succeeded))
	other := build.LinkOf(api.Link{Operation: id, Role: api.RoleSource, Namespace: "payroll", Set: api.SetRef{Name: "web"}})
	handle := build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "kit.example.com", VolumeHandle: "same"}
	})
	released := func(ago time.Duration) build.Option {
		return build.Edit(func(v *corev1.PersistentVolume) {
			at := metav1.NewTime(build.Now.Add(-ago))
			v.Status.LastPhaseTransitionTime = &at
		})
	}
	using := build.Claim(web1, "128Mi")
	back := build.Operation(api.Moving, build.Members(api.MemberPending, web0), build.RollbackOf("ba9876543210"),
		build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = old0 }), build.DerivedID)
	check(t,
		testCase{"one retention is over, another is not", situation(done, objects{retiredVolume(web0, over), retiredVolume(web1, open)})},
		testCase{"the set is gone", situation(objects{retiredVolume(web0, over)})},
		testCase{"an unreadable time: the retention begins again", situation(done, objects{retiredVolume(web0, "yesterday")})},
		testCase{"the same storage as a volume in use: it is never deleted",
			situation(done, objects{build.With(retiredVolume(web0, over), handle), using, build.VolumeOf(using, handle)})},
		testCase{"a rollback that has begun needs the volume", situation(setWith(back), objects{retiredVolume(web0, over)})},
		testCase{"a volume in use whose annotation says that it is old", situation(done,
			objects{using, build.VolumeOf(using, build.Annotation(api.RetainedUntilAnnotation, over),
				build.Retained(api.RoleSource, web1))})},
		testCase{"a volume of another set of the same name, in another namespace",
			situation(done, objects{build.With(retiredVolume(web0, over), other)})},
		testCase{"an orphan: neither a record nor a journal names the operation that held it",
			situation(oldVolume(web0, released(time.Hour)))},
		testCase{"an orphan for a minute: its claim may return", situation(oldVolume(web0, released(time.Minute)))},
		testCase{"an orphan that is reserved for a claim's name: it is not bound to the next claim of that name",
			situation(oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")), released(time.Hour)))},
		testCase{"an orphan with foreign data: it is left to its owner",
			situation(objects{build.With(source(web0)[1].(*corev1.PersistentVolume), build.Released(), build.Link(api.RoleForeign, web0),
				released(time.Hour))})},
		testCase{"its operation is active",
			situation(append(onlyMember(api.MemberCopying)[:2], pod(0)...), oldVolume(web0, released(time.Hour)))},
	)
}

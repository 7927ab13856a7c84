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

// TestForgedRecord: whoever may edit the set can write its record, the journal only Drydock and cluster administrators can.
func TestForgedRecord(t *testing.T) {
	names := func(change func(*api.Move)) objects {
		return set(moving0(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { change(&m.Claims[0]) })))
	}
	payroll := objects{build.VolumeOf(build.Claim("data-payroll-0", "64Mi"), build.Released())}
	own := append(journal(web0), held(0)...)
	check(t,
		row{"an old volume that the claim does not have", given(names(func(m *api.Move) { m.OldVolume = "pv-data-payroll-0" }), own,
			source(web0), copied(web0), payroll)},
		row{"a volume of another namespace, which is not even read",
			given(names(func(m *api.Move) { m.OldVolume = "pv-elsewhere" }), own, source(web0), copied(web0))},
		row{"a claim that the journal does not name", given(names(func(m *api.Move) { m.Claim = "data-payroll-0" }), own, source(web0),
			copied(web0))},
		row{"when it is given up, the volume of others is left alone, too",
			given(set(givenUp(api.MemberKept, build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = "pv-data-payroll-0" }))),
				journal(web0), pod(0), source(web0), payroll)},
		row{"there is no journal yet: backup writes it first",
			given(set(moving0(api.MemberSwapping)), held(0), source(web0), copied(web0))},
		row{"the journal cannot be read", given(set(moving0(api.MemberSwapping)),
			objects{build.With(journal(web0)[0], build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))},
			held(0), source(web0), copied(web0))},
		row{"given up, without journal, and the pod is held: nothing is believed",
			given(set(givenUp(api.MemberSwapping)), held(0), oldVolume(web0), copied(web0))},
		row{"given up before it had a journal: it ends", given(set(givenUp(api.MemberPending)), pod(0), bare(web0))},
		row{"a record that cannot be read", given(objects{build.Set("web", build.Annotation(api.StatusAnnotation, "{}"))}, journal(web0),
			held(0), source(web0))},
		row{"a record of another set", given(set(moving0(api.MemberSwapping), build.UID("uid-2")), source(web0))},
		row{"a record of templates only, whose id is not the set's own",
			given(oldSet(build.Operation(api.Moving, build.ReplacesSet)), pod(0))},
		row{"planned: pause-owner is next", given(set(build.Operation(api.Planned)))},
		row{"refused: nothing was touched", given(set(build.Operation(api.Refused)))},
		row{"a set without a record", given(objects{build.Set("web")})},
		row{"no set at all", given()},
	)
}

// retired is an old volume in its window.
func retired(name, until string) *corev1.PersistentVolume {
	claim := build.Claim(name, "64Mi")
	return build.VolumeOf(claim, build.Released(), build.Retained(api.RoleRetired, name),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

// TestOldVolumes: they are kept for their window, and then go as their own reclaim policy says.
func TestOldVolumes(t *testing.T) {
	const over, open = "2026-03-01T11:59:00Z", "2026-03-01T12:01:00Z"
	done := set(build.Operation(api.Succeeded))
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
	back := build.Operation(api.Moving, build.Members(api.MemberPending, web0), build.Rollback("ba9876543210"),
		build.EditMember(0, func(m *api.Member) { m.Claims[0].NewVolume = old0 }))
	check(t,
		row{"a window is over, another is open", given(done, objects{retired(web0, over), retired(web1, open)})},
		row{"the set is gone", given(objects{retired(web0, over)})},
		row{"a time that cannot be read: the window begins again", given(done, objects{retired(web0, "yesterday")})},
		row{"the same storage as a volume in use: it is never deleted",
			given(done, objects{build.With(retired(web0, over), handle), using, build.VolumeOf(using, handle)})},
		row{"a rollback that has begun needs it", given(set(back), objects{retired(web0, over)})},
		row{"a volume in use that says it is old", given(done,
			objects{using, build.VolumeOf(using, build.Annotation(api.RetainedUntilAnnotation, over),
				build.Retained(api.RoleSource, web1))})},
		row{"a volume of another set of the same name, in another namespace", given(done, objects{build.With(retired(web0, over), other)})},
		row{"an orphan: neither a record nor a journal names the operation that held it", given(oldVolume(web0, released(time.Hour)))},
		row{"an orphan since a minute: its claim may come back", given(oldVolume(web0, released(time.Minute)))},
		row{"an orphan that is reserved for a claim's name: it is not bound to the next claim of that name",
			given(oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")), released(time.Hour)))},
		row{"an orphan with data of others: it is left to its owner",
			given(objects{build.With(source(web0)[1].(*corev1.PersistentVolume), build.Released(), build.Link(api.RoleForeign, web0),
				released(time.Hour))})},
		row{"its operation is under way", given(append(alone(api.MemberCopying)[:2], pod(0)...), oldVolume(web0, released(time.Hour)))},
	)
}

package backup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// TestUnusableTargets: the mover deletes the files that it finds on a target. So a volume that may hold data is never used as a target.
func TestUnusableTargets(t *testing.T) {
	at := append(set(whileMoving(api.MemberCopying)), append(journal(web0), pod(0)...)...)
	bound := func(volume *corev1.PersistentVolume) objects { return objects{build.Target(web0, "128Mi"), volume} }
	fresh := func(options ...build.Option) *corev1.PersistentVolume {
		return build.VolumeOf(build.Target(web0, "128Mi"), options...)
	}
	handle := build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "kit.example.com", VolumeHandle: "same"}
	})
	zone := func(name string) build.Option {
		return build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.kubernetes.io/zone", Operator: corev1.NodeSelectorOpIn,
					Values: []string{name}}}}}}}
		})
	}
	same := source(web0)
	handle(same[1])
	zoned := source(web0)
	zone("a")(zoned[1])
	unclaimed := func(options ...build.Option) func(*Input) {
		v := build.Volume("pv-old-data", build.Claim(web0, "256Mi"), build.Unclaimed(), build.Static())
		return func(in *Input) { in.Unclaimed = []*corev1.PersistentVolume{build.With(v, options...)} }
	}
	reservedFor := func(name string) build.Option {
		return build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: build.Namespace, Name: name}
		})
	}
	check(t,
		row{"the volume existed before the claim: it was not provisioned for it", given(at, source(web0), bound(fresh(build.Static())))},
		row{"the volume was provisioned long before the claim", given(at, source(web0), bound(fresh(build.Age(time.Hour))))},
		row{"the volume is gone", given(at, source(web0), objects{build.Target(web0, "128Mi")})},
		row{"the volume is the same storage as the source: it is retained first", given(at, same, bound(fresh(handle)))},
		row{"the volume is the same storage as the source, and is retained",
			given(at, same, bound(fresh(handle, build.Retained(api.RoleForeign, web0))))},
		row{"no node can mount both", given(at, zoned, bound(fresh(zone("b"))))},
		row{"nodes can mount both", given(at, zoned, bound(fresh(zone("a"))))},
		row{"Kubernetes would bind the claim to an existing volume", with(given(at, source(web0)), unclaimed())},
		row{"an existing volume is too small", with(given(at, source(web0)), unclaimed(build.Edit(func(v *corev1.PersistentVolume) {
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
		})))},
		row{"an existing volume of another class", with(given(at, source(web0)),
			unclaimed(build.Edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "other" })))},
		row{"an existing volume of another attributes class",
			with(given(at, source(web0)),
				unclaimed(build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })))},
		row{"an existing volume is reserved for another claim", with(given(at, source(web0)), unclaimed(reservedFor("other")))},
		row{"an existing volume is reserved for the temporary claim",
			with(given(at, source(web0)), unclaimed(reservedFor(api.TargetName(id, web0, 0))))},
	)
}

// TestReasonsToRevert lists the problems that backup finds before and during the first passes.
func TestReasonsToRevert(t *testing.T) {
	late := build.Due(-time.Second)
	forged := func(change func(*api.Move)) objects {
		return set(whileMoving(api.MemberCopying, build.EditMember(0, func(m *api.Member) { change(&m.Claims[0]) })))
	}
	check(t,
		row{"the deadline has passed", given(copying(late), pod(0))},
		row{"the API server rejects a write", with(given(copying(), pod(0)), func(in *Input) { in.Rejected = "exceeded quota" })},
		row{"a claim was deleted", given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0)[1:])},
		row{"a claim is being deleted", given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0, build.Deleting()))},
		row{"a claim was replaced", given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0, build.UID("uid-other")))},
		row{"a volume is gone", given(set(whileMoving(api.MemberCopying)), journal(web0), pod(0), source(web0)[:1])},
		row{"the record has an id that does not derive from the set", given(set(whileMoving(api.MemberPending)), pod(0), unlinked(web0))},
		row{"the record has a stopped member, but there is no journal",
			given(set(whileMoving(api.MemberFinalPass, build.DerivedID)), heldPod(0), unlinked(web0))},
		row{"the record names a volume that is not in the journal",
			given(forged(func(m *api.Move) { m.OldVolume = "pv-data-payroll-0" }), journal(web0), pod(0), source(web0))},
		row{"the record names a claim that is not in the journal",
			given(forged(func(m *api.Move) { m.Claim = "data-payroll-0" }), journal(web0), pod(0), source(web0))},
		row{"the set is being deleted: restore handles the operation",
			given(set(whileMoving(api.MemberCopying), build.Deleting()), journal(web0), pod(0), source(web0))},
		row{"the set is being created again: its UID is not known yet",
			given(set(whileMoving(api.MemberCopying, func(r *api.Resize) { r.Set.UID, r.ReplaceSet = "", true })), journal(web0), pod(0),
				source(web0))},
		row{"planned: pause-owner is next", given(set(build.Operation(api.Planned)))},
		row{"reverting: restore releases the held pods", given(set(build.Operation(api.Reverting)), journal(web0), pod(0), source(web0))},
		row{"the record is unreadable", given(objects{build.Set("web", build.Annotation(api.StatusAnnotation, "{}"))})},
	)
}

// TestWarnings: each warning of a mover is reported once, and its length is bounded.
func TestWarnings(t *testing.T) {
	warns := func(omitted int, texts ...string) objects {
		return moverPod(1, build.FirstPassConverged(), build.Edit(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses[0] = build.EndedContainer(moverreport.FirstContainer,
				moverreport.MemberReport{Stage: moverreport.FirstContainer,
					Result: moverreport.ResultConverged,
					Claims: []moverreport.ClaimReport{{Name: "data", Warnings: texts, Omitted: omitted}}})
		}))
	}
	known := build.EditMember(0, func(m *api.Member) { m.Claims[0].Warnings = []string{"a sparse file"} })
	check(t,
		row{"a warning", given(copying(), pod(0), warns(0, "a sparse file"))},
		row{"a known warning is not reported again", given(copying(known), pod(0), warns(0, "a sparse file", "a socket"))},
		row{"some warnings were omitted", given(copying(), pod(0), warns(3, "a sparse file"))},
		row{"a long warning is cut", given(copying(), pod(0), warns(0, strings.Repeat("ü", 400)))},
	)
}

package restore

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestI1DeletedClaimComesBack: before the set has replicas again, or the StatefulSet controller would make an empty one.
func TestI1DeletedClaimComesBack(t *testing.T) {
	back := manifest(web0, old0, "64Mi")
	stopped := set(rollingBackOf(api.ClaimVerified))
	late := set(rollingBackOf(api.ClaimVerified, build.Due(-time.Second)))
	taken := build.TakenBy(web0, "uid-successor")
	going := build.Claim(web0, "64Mi", build.Deleting(), build.Finalizers("kubernetes.io/pvc-protection"))
	const givesBack = "do RollingBack: patch statefulsets web {replicas 0 to 3}"
	check(t, map[string]row{
		"it is gone: its volume is reserved for the name": {
			in:   world(stopped, journalOf(web0), oldVolume(web0), copied(web0)),
			want: "do RollingBack: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"then it is created": {
			in:   world(stopped, journalOf(web0), oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "do RollingBack: create persistentvolumeclaims data-web-0",
		},
		"somebody was quicker, and it has no volume yet: the old one is reserved for it": {
			in:   world(stopped, journalOf(web0), oldVolume(web0), objects{build.Claim(web0, "64Mi", build.On(""))}),
			want: "do RollingBack: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"it is bound: people's words come back": {
			in:   world(stopped, journalOf(web0), objects{build.Claim(web0, "64Mi", build.UID("uid-successor"))}, oldVolume(web0, build.Reserved(back), taken)),
			want: "do RollingBack: patch persistentvolumeclaims data-web-0 {+label operation, +operation, +people, +finalizer example.com/keep}",
		},
		"it is whole: the set gets its replicas": {
			in:   world(stopped, journalOf(web0), objects{successor(web0, old0, "64Mi")}, oldVolume(web0, taken)),
			want: givesBack,
		},
		"it is not gone yet: that is waited for": {
			in:   world(stopped, journalOf(web0), objects{going}, oldVolume(web0)),
			want: "wait RollingBack (claim data-web-0 is being deleted by somebody else)",
		},
		"I8: but not for ever: the set stays at zero, and it is told": {
			in: waited(world(late, journalOf(web0), objects{going}, oldVolume(web0))),
			want: `do DeadlineExceeded: patch statefulsets web {+status}; event DeadlineExceeded "the switch was given up after 12m0s: claim data-web-0 is being ` +
				`deleted by somebody else. No data is lost, every volume is kept; the set stays at zero. Mend the cause, then go on with the annotation drydock.dev/retry" -> operation.failed`,
			next: "Failed DeadlineExceeded at Switching, attempt 1, round 1, generation 0, replicas 3; data-web-0 Verified on pv-new-data-web-0",
		},
		"somebody has given it another volume: it is left as it is": {
			in:   world(stopped, journalOf(web0), objects{build.Claim(web0, "64Mi", build.On("pv-x"))}, oldVolume(web0)),
			want: givesBack,
		},
		"its volume is gone, too": {
			in:   world(stopped, journalOf(web0), copied(web0)),
			want: givesBack,
		},
		"a status that names a volume which was never held for it": {
			in:   world(stopped, journalOf(web0), oldVolume(web0, build.Held(api.RoleSource, web1))),
			want: givesBack,
		},
	})
}

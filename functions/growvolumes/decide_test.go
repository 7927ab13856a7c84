package growvolumes

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/test/kit/build"
)

const rule = "data=below:20%,by:10%,max:200Mi"

// TestGrow: when it asks for how much.
func TestGrow(t *testing.T) {
	check(t,
		row{"every volume has enough free", web(rule)},
		row{"as much free as the rule asks for", web(rule, free("data-web-1", 20))},
		row{"one has less", web(rule, free("data-web-1", 19))},
		row{"the fullest one decides", web(rule, free("data-web-0", 15), free("data-web-1", 5))},
		row{"the rule is in bytes", web("data=below:30Mi,by:64Mi,max:1Gi", free("data-web-1", 29))},
		row{"the defaults of a rule", web("data=max:1Gi", free("data-web-1", 9))},
		row{"the defaults of a rule, and just enough", web("data=max:1Gi", free("data-web-1", 10))},
		row{"less inodes than the rule asks for", web("data=inodes:20%,by:10%,max:200Mi",
			reports("data-web-0", func(u *grow.Usage) { u.Inodes, u.InodesFree = 1000, 199 }))},
		row{"a file system without inodes of a fixed number", web("data=inodes:20%,max:200Mi",
			reports("data-web-0", func(u *grow.Usage) { u.Inodes, u.InodesFree = 0, 0 }))},
		row{"the growth would go beyond the limit", web("data=below:20%,by:50Mi,max:120Mi", free("data-web-1", 1))},
		row{"the full one is smaller than the others: all are as large as the largest", web(rule, claim("data-web-0", "180Mi"), free("data-web-0", 50),
			free("data-web-1", 1))},
		row{"the template is larger than the full one", web(rule, edit(func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", "150Mi").Spec
		}), free("data-web-1", 1))},
		row{"from 10Gi on in whole GiB", web("data=below:20%,by:10%,max:20Gi", claim("data-web-0", "11Gi"), free("data-web-0", 1))},
		row{"the volume is larger than its claim asks for", web(rule, claim("data-web-0", "100Mi", has("128Mi")), free("data-web-0", 1))},
		row{"a claim of a removed member is smaller", web(rule, claim("data-web-7", "50Mi"), free("data-web-1", 1))},
		row{"a set that asks for nothing", web("off", free("data-web-1", 1))},
		row{"a set at zero", made(rule, []build.Option{build.Replicas(0)}, free("data-web-1", 1))},
		row{"a set that sleeps", made(rule, []build.Option{build.WithSleep(build.Sleep(api.Asleep))}, free("data-web-1", 1))},
		row{"a set that is resized", made(rule, []build.Option{build.Status(build.Operation(api.Expanding))}, free("data-web-1", 1))},
		row{"every other template", web("*=below:20%,by:10%,max:200Mi", free("data-web-1", 1))},
	)
}

// TestGrowUnknown: nothing grows by figures that are unknown, old or contradictory.
func TestGrowUnknown(t *testing.T) {
	says := func(change func(*grow.Usage)) Input {
		return web(rule, free("data-web-0", 1), free("data-web-1", 1), reports("data-web-0", change), silent("data-web-1"))
	}
	check(t,
		row{"nothing is known", web(rule, silent("data-web-0"), silent("data-web-1"))},
		row{"nothing is known of one, and the other is full", web(rule, silent("data-web-0"), free("data-web-1", 1))},
		row{"nothing is known of one, and the other is not full", web(rule, silent("data-web-0"))},
		row{"less than nothing is free", says(func(u *grow.Usage) { u.Free = -1 })},
		row{"more is free than there is", says(func(u *grow.Usage) { u.Free = u.Capacity + 1 })},
		row{"it has no capacity", says(func(u *grow.Usage) { u.Capacity, u.Free = 0, 0 })},
		row{"more inodes are free than there are", says(func(u *grow.Usage) { u.InodesFree = 1 })},
		row{"the figures are old", says(func(u *grow.Usage) { u.At = u.At.Add(-time.Hour) })},
		row{"the figures are of tomorrow", says(func(u *grow.Usage) { u.At = u.At.Add(24 * time.Hour) })},
		row{"the figures have no time", says(func(u *grow.Usage) { u.At = time.Time{} })},
		row{"the file system is larger than the volume", says(func(u *grow.Usage) { u.Capacity *= 2 })},
		row{"the file system has not grown with its volume", says(func(u *grow.Usage) { u.Capacity, u.Free = u.Capacity/3, 0 })},
		row{"a raw block volume", web(rule, claim("data-web-0", "100Mi", asBlock), claim("data-web-1", "100Mi", asBlock), free("data-web-1", 1))},
		row{"the claim has no volume yet", web(rule, claim("data-web-0", "100Mi", has("0")), silent("data-web-1"))},
		row{"it was measured before the latest resize has ended", made(rule, []build.Option{build.Resize("data=110Mi+"),
			ended(api.Succeeded, "data=110Mi+", 2*time.Minute)}, claim("data-web-0", "110Mi"), claim("data-web-1", "110Mi"), free("data-web-0", 1),
			reports("data-web-0", func(u *grow.Usage) { u.At = u.At.Add(-3 * time.Minute) }))},
		row{"this was told before", made(rule, []build.Option{remembers(func(g *api.Growth) {
			g.Told = []api.GrowthWarning{{Template: "data", Reason: api.UsageUnknown, Message: "how full the volumes of template data are is not known, so they do " +
				"not grow (claim data-web-0: no report). Look at the log of grow-volumes and at its settings DRYDOCK_GROW_*"}}
		})}, silent("data-web-0"), silent("data-web-1"))},
	)
}

var asBlock = build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })

// TestGrowLimit: the limit is told once, and again after it was another one.
func TestGrowLimit(t *testing.T) {
	const limited = "data=below:20%,by:10%,max:100Mi"
	told := remembers(func(g *api.Growth) {
		g.Told = []api.GrowthWarning{{Template: "data", Reason: api.GrowthLimit, Message: "a volume of template data is nearly full, and as large as it may " +
			"get by itself (max:100Mi). Raise max in drydock.dev/grow, or free space on it"}}
	})
	check(t,
		row{"a full volume is at its limit", web(limited, free("data-web-1", 1))},
		row{"a full volume is beyond its limit", web("data=below:20%,max:50Mi", free("data-web-1", 1))},
		row{"the limit was told before", made(limited, []build.Option{told}, free("data-web-1", 1))},
		row{"the limit was told before, and it is another one", made("data=below:20%,max:90Mi", []build.Option{told}, free("data-web-1", 1))},
		row{"the limit was told before, and there is space again", made(limited, []build.Option{told}, free("data-web-1", 50))},
		row{"the limit was told before, and nothing is to grow any more", made("off", []build.Option{told}, free("data-web-1", 1))},
		row{"the limit was told before, and is higher now", made(rule, []build.Option{told}, free("data-web-1", 1))},
	)
}

// TestGrowStopsNoMember: where a member would be stopped, nothing grows, and that is told once.
func TestGrowStopsNoMember(t *testing.T) {
	check(t,
		row{"the class of a claim does not allow expansion", web(rule, claim("data-web-0", "100Mi", build.OfClass(fixed)), free("data-web-1", 1))},
		row{"the class does not exist", web(rule, claim("data-web-0", "100Mi", build.OfClass("gone")), free("data-web-1", 1))},
		row{"that of a removed member does not allow it", web(rule, claim("data-web-7", "100Mi", build.OfClass(fixed)), free("data-web-1", 1))},
		row{"that of a claim that is large enough does not matter", web(rule, claim("data-web-7", "110Mi", build.OfClass(fixed)), free("data-web-1", 1))},
		row{"that of a claim without a volume does not matter", web(rule, claim("data-web-7", "50Mi", build.OfClass(""), build.On("")), free("data-web-1", 1))},
		row{"the set asks for growth of stopped members",
			made(rule, []build.Option{build.Annotation(api.ResizeMethodAnnotation, "expand-offline")}, free("data-web-1", 1))},
		row{"the set asks for copies", made(rule, []build.Option{build.Annotation(api.ResizeMethodAnnotation, "copy")}, free("data-web-1", 1))},
		row{"an operator controls the set", made(rule, []build.Option{build.Owned("Database", "db")}, free("data-web-1", 1))},
		row{"an operator controls the set, and is to be ignored", made(rule, []build.Option{build.Owned("Database", "db"),
			build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerIgnore))}, free("data-web-1", 1))},
	)
}

// TestGrowBesideRequests: a request of the user that is open is never overwritten.
func TestGrowBesideRequests(t *testing.T) {
	full := func(options ...build.Option) Input { return made(rule, options, free("data-web-1", 1)) }
	logs := []build.Option{build.Template("logs", "10Mi", roomy)}
	check(t,
		row{"the user's request has not begun", full(build.Resize("data=150Mi"))},
		row{"the user's request cannot be read", full(build.Resize("data=lots"))},
		row{"the user's request was refused", full(build.Resize("data=150Mi"), ended(api.Refused, "data=150Mi", time.Minute))},
		row{"the user's request has failed", full(build.Resize("data=150Mi"), ended(api.Failed, "data=150Mi", time.Minute))},
		row{"the user's request was rolled back", full(build.Resize("data=150Mi"), ended(api.Succeeded, "data=150Mi", time.Minute, build.Rollback("x")))},
		row{"the user's request is met", full(build.Resize("data=100Mi"), ended(api.Succeeded, "data=100Mi", time.Minute))},
		row{"the user's request is met, and applied from a manifest", full(build.Resize("data=100Mi"), applied)},
		row{"the same at least so much", full(build.Resize("data=100Mi+"), applied)},
		row{"the claims follow the templates", full(build.Resize("auto"))},
		row{"the user's request for another template is met", full(append(logs, build.Resize("logs=10Mi@roomy:RWO"))...)},
		row{"the user's request for a template that is gone is met", full(build.Resize("data=100Mi+,none=1Gi+"))},
		row{"growth's own request is about to begin", full(build.Resize("data=110Mi+"), asked("data=110Mi+", time.Minute))},
		row{"growth's own request waits for long", full(build.Resize("data=110Mi+"), asked("data=110Mi+", time.Hour))},
		row{"growth's own request was refused", full(build.Resize("data=110Mi+"), asked("data=110Mi+", time.Minute),
			ended(api.Refused, "data=110Mi+", time.Minute))},
	)
}

var applied = build.Edit(func(s *appsv1.StatefulSet) {
	s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: "argocd-controller", Operation: metav1.ManagedFieldsOperationApply,
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:drydock.dev/resize":{}}}}`)}})
})

// TestGrowAgain: after a growth, and after one that the storage has not carried out.
func TestGrowAgain(t *testing.T) {
	grown := []func(*Input){claim("data-web-0", "110Mi"), claim("data-web-1", "110Mi"), free("data-web-0", 50), free("data-web-1", 1)}
	after := func(rule string, ago time.Duration) Input {
		followed := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", "110Mi").Spec })
		return made(rule, []build.Option{build.Resize("data=110Mi+"), asked("data=110Mi+", ago), ended(api.Succeeded, "data=110Mi+", ago), followed},
			grown...)
	}
	failed := func(rule string, ago time.Duration, more ...func(*Input)) Input {
		return made(rule, []build.Option{build.Resize("data=110Mi+"), asked("data=110Mi+", ago+time.Hour), ended(api.Failed, "data=110Mi+", ago)},
			append([]func(*Input){free("data-web-1", 1)}, more...)...)
	}
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim("x", "110Mi").Spec.Resources.Requests
	})
	check(t,
		row{"it is full again after ten minutes", after(rule, 10*time.Minute)},
		row{"it is full again before the time between two growths is over", after(rule+",every:1h", 10*time.Minute)},
		row{"it is full again after that time", after(rule+",every:1h", 61*time.Minute)},
		row{"the storage has not carried out the growth five hours ago", failed(rule, 5*time.Hour)},
		row{"the storage has not carried out the growth seven hours ago", failed(rule, 7*time.Hour)},
		row{"the same, and the claims go on asking", failed(rule, 7*time.Hour, claim("data-web-1", "110Mi", has("100Mi"), asks), free("data-web-1", 1))},
		row{"the storage has not carried out the growth two hours ago, and every is one", failed(rule+",every:1h", 2*time.Hour)},
		row{"the same, and a retry would be one of a cleanup", made(rule, []build.Option{build.Resize("data=110Mi+"), asked("data=110Mi+", 9*time.Hour),
			ended(api.Failed, "data=110Mi+", 8*time.Hour), build.Annotation(api.CleanupTemplateAnnotation, "{}"),
			build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup,
				Phase: api.Failed, Set: api.SetRef{Name: "web", UID: "uid-web"}}}).Encode())}, free("data-web-1", 1))},
	)
}

// TestGrowInvalid: rules that cannot be read are told once, and a memory that cannot be read stops growth.
func TestGrowInvalid(t *testing.T) {
	check(t,
		row{"no limit", web("data=below:10%", free("data-web-1", 1))},
		row{"a template that is not there", web("none=max:1Gi", free("data-web-1", 1))},
		row{"nonsense in what it remembers", made(rule, []build.Option{build.Annotation(api.GrowthAnnotation, "{")}, free("data-web-1", 1))},
		row{"a memory of another version", made(rule, []build.Option{build.Annotation(api.GrowthAnnotation, `{"version":7,"set":"shop/web"}`)},
			free("data-web-1", 1))},
		row{"a memory that came along with a manifest", made(rule, []build.Option{build.Annotation(api.GrowthAnnotation,
			`{"version":1,"set":"other/web","request":"data=110Mi+"}`)}, free("data-web-1", 1))},
		row{"it has two templates, and both are full", made("data=max:200Mi;logs=max:20Mi", []build.Option{build.Template("logs", "10Mi", roomy)},
			claim("logs-web-0", "10Mi"), free("logs-web-0", 1), free("data-web-1", 1))},
		row{"it has two templates, and one is at its limit", made("data=max:200Mi;logs=max:10Mi", []build.Option{build.Template("logs", "10Mi", roomy)},
			claim("logs-web-0", "10Mi"), free("logs-web-0", 1), free("data-web-1", 1))},
	)
}

package growvolumes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

const rule = "data=below:20%,by:10%,max:200Mi"

// TestGrowWhenNearlyFull: the rule and the fullest claim decide when volumes grow, and how much.
func TestGrowWhenNearlyFull(t *testing.T) {
	check(t,
		row{"every volume has enough free", web(rule)},
		row{"exactly as much free space as the rule requires", web(rule, withFree("data-web-1", 20))},
		row{"one volume has less free space", web(rule, withFree("data-web-1", 19))},
		row{"two volumes have less: the fullest decides", web(rule, withFree("data-web-0", 15), withFree("data-web-1", 5))},
		row{"the rule is in bytes", web("data=below:30Mi,by:64Mi,max:1Gi", withFree("data-web-1", 29))},
		row{"the defaults of a rule", web("data=max:1Gi", withFree("data-web-1", 9))},
		row{"the defaults of a rule, with just enough free space", web("data=max:1Gi", withFree("data-web-1", 10))},
		row{"fewer free inodes than the rule requires", web("data=inodes:20%,by:10%,max:200Mi",
			withUsage("data-web-0", func(u *grow.Usage) { u.Inodes, u.InodesFree = 1000, 199 }))},
		row{"a file system without a fixed number of inodes", web("data=inodes:20%,max:200Mi",
			withUsage("data-web-0", func(u *grow.Usage) { u.Inodes, u.InodesFree = 0, 0 }))},
		row{"the growth would exceed the limit", web("data=below:20%,by:50Mi,max:120Mi", withFree("data-web-1", 1))},
		row{"the full claim is smaller than the largest claim", web(rule, withClaim("data-web-0", "180Mi"), withFree("data-web-0", 50),
			withFree("data-web-1", 1))},
		row{"the template is larger than the full claim", web(rule, editSet(func(s *appsv1.StatefulSet) {
			s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", "150Mi").Spec
		}), withFree("data-web-1", 1))},
		row{"a size above 10Gi is rounded to whole GiB", web("data=below:20%,by:10%,max:20Gi", withClaim("data-web-0", "11Gi"),
			withFree("data-web-0", 1))},
		row{"the volume is larger than the claim's request", web(rule, withClaim("data-web-0", "100Mi", hasCapacity("128Mi")),
			withFree("data-web-0", 1))},
		row{"a claim of a removed member is smaller", web(rule, withClaim("data-web-7", "50Mi"), withFree("data-web-1", 1))},
		row{"growth is off", web("off", withFree("data-web-1", 1))},
		row{"a set at zero", webWith(rule, []build.Option{build.Replicas(0)}, withFree("data-web-1", 1))},
		row{"a set that sleeps", webWith(rule, []build.Option{build.WithSleep(build.Sleep(api.Asleep))}, withFree("data-web-1", 1))},
		row{"a set with an active resize", webWith(rule, []build.Option{build.Status(build.Operation(api.Expanding))},
			withFree("data-web-1", 1))},
		row{"a rule for every template", web("*=below:20%,by:10%,max:200Mi", withFree("data-web-1", 1))},
	)
}

// TestUnreliableUsageDoesNotGrow: missing, old or contradictory figures cause no growth.
func TestUnreliableUsageDoesNotGrow(t *testing.T) {
	withFirstUsage := func(change func(*grow.Usage)) Input {
		return web(rule, withFree("data-web-0", 1), withFree("data-web-1", 1), withUsage("data-web-0", change), withoutUsage("data-web-1"))
	}
	check(t,
		row{"no usage is known", web(rule, withoutUsage("data-web-0"), withoutUsage("data-web-1"))},
		row{"the usage of one volume is unknown, and the other is full", web(rule, withoutUsage("data-web-0"), withFree("data-web-1", 1))},
		row{"the usage of one volume is unknown, and the other has space", web(rule, withoutUsage("data-web-0"))},
		row{"a negative amount is free", withFirstUsage(func(u *grow.Usage) { u.Free = -1 })},
		row{"more is free than the capacity", withFirstUsage(func(u *grow.Usage) { u.Free = u.Capacity + 1 })},
		row{"the capacity is zero", withFirstUsage(func(u *grow.Usage) { u.Capacity, u.Free = 0, 0 })},
		row{"more inodes are free than exist", withFirstUsage(func(u *grow.Usage) { u.InodesFree = 1 })},
		row{"the figures are old", withFirstUsage(func(u *grow.Usage) { u.MeasuredAt = u.MeasuredAt.Add(-time.Hour) })},
		row{"the figures are from tomorrow", withFirstUsage(func(u *grow.Usage) { u.MeasuredAt = u.MeasuredAt.Add(24 * time.Hour) })},
		row{"the figures have no time", withFirstUsage(func(u *grow.Usage) { u.MeasuredAt = time.Time{} })},
		row{"the file system is larger than the volume", withFirstUsage(func(u *grow.Usage) { u.Capacity *= 2 })},
		row{"the file system has not grown with its volume", withFirstUsage(func(u *grow.Usage) { u.Capacity, u.Free = u.Capacity/3, 0 })},
		row{"a raw block volume", web(rule, withClaim("data-web-0", "100Mi", asRawBlock), withClaim("data-web-1", "100Mi", asRawBlock),
			withFree("data-web-1", 1))},
		row{"the claim has no volume yet", web(rule, withClaim("data-web-0", "100Mi", hasCapacity("0")), withoutUsage("data-web-1"))},
		row{"the volume was measured before the latest resize ended", webWith(rule, []build.Option{withFloors("data=110Mi", 3*time.Minute),
			withEndedGrowth(api.Succeeded, "data=110Mi", 2*time.Minute)}, withClaim("data-web-0", "110Mi"),
			withClaim("data-web-1", "110Mi"), withFree("data-web-0", 1),
			withUsage("data-web-0", func(u *grow.Usage) { u.MeasuredAt = u.MeasuredAt.Add(-3 * time.Minute) }))},
		row{"unknown usage was reported before", webWith(rule, []build.Option{withGrowth(func(g *api.Growth) {
			g.Warnings = []api.GrowthWarning{{Template: "data", Reason: api.UsageUnknown, Message: "an earlier message"}}
		})}, withoutUsage("data-web-0"), withoutUsage("data-web-1"))},
	)
}

var asRawBlock = build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) })

// TestLimitIsReportedOnce: the limit is reported again only after it has changed.
func TestLimitIsReportedOnce(t *testing.T) {
	const limited = "data=below:20%,by:10%,max:100Mi"
	reportedLimit := withGrowth(func(g *api.Growth) {
		g.Warnings = []api.GrowthWarning{{Template: "data", Reason: api.GrowthLimit, Message: "an earlier message"}}
	})
	check(t,
		row{"a full volume is at its limit", web(limited, withFree("data-web-1", 1))},
		row{"a full volume is beyond its limit", web("data=below:20%,max:50Mi", withFree("data-web-1", 1))},
		row{"the limit was reported before", webWith(limited, []build.Option{reportedLimit}, withFree("data-web-1", 1))},
		row{"the limit was reported before, and has changed", webWith("data=below:20%,max:90Mi", []build.Option{reportedLimit},
			withFree("data-web-1", 1))},
		row{"the limit was reported before, and the volume has space again", webWith(limited, []build.Option{reportedLimit},
			withFree("data-web-1", 50))},
		row{"the limit was reported before, and growth is off now", webWith("off", []build.Option{reportedLimit},
			withFree("data-web-1", 1))},
		row{"the limit was reported before, and is higher now", webWith(rule, []build.Option{reportedLimit}, withFree("data-web-1", 1))},
	)
}

// TestGrowthThatWouldStopMembersIsBlocked: such a growth is only reported, once.
func TestGrowthThatWouldStopMembersIsBlocked(t *testing.T) {
	check(t,
		row{"the class of a claim does not allow expansion", web(rule, withClaim("data-web-0", "100Mi", build.OfClass(fixed)),
			withFree("data-web-1", 1))},
		row{"the class does not exist", web(rule, withClaim("data-web-0", "100Mi", build.OfClass("gone")), withFree("data-web-1", 1))},
		row{"the class of a removed member's claim does not allow expansion", web(rule,
			withClaim("data-web-7", "100Mi", build.OfClass(fixed)), withFree("data-web-1", 1))},
		row{"the class of a large enough claim does not allow expansion", web(rule,
			withClaim("data-web-7", "110Mi", build.OfClass(fixed)), withFree("data-web-1", 1))},
		row{"the class of a claim without a volume does not allow expansion", web(rule,
			withClaim("data-web-7", "50Mi", build.OfClass(""), build.BoundTo("")), withFree("data-web-1", 1))},
		row{"the set requires expansion while members are stopped",
			webWith(rule, []build.Option{build.Annotation(api.ResizeMethodAnnotation, "expand-offline")}, withFree("data-web-1", 1))},
		row{"the set requires copies", webWith(rule, []build.Option{build.Annotation(api.ResizeMethodAnnotation, "copy")},
			withFree("data-web-1", 1))},
		row{"an operator controls the set", webWith(rule, []build.Option{build.ControlledBy("Database", "db")}, withFree("data-web-1", 1))},
		row{"an operator controls the set, and the owner policy is ignore", webWith(rule, []build.Option{build.ControlledBy("Database", "db"),
			build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerIgnore))}, withFree("data-web-1", 1))},
		row{"an operator controls the set, and Drydock may change its resource", webWith(rule, []build.Option{build.ControlledBy("Database",
			"db"), build.Annotation(api.OwnerPolicyAnnotation, string(api.OwnerUpdate))}, withFree("data-web-1", 1),
			withConsent(api.ConsentToUpdate))},
		row{"the volumes follow the resource of an operator", webWith(rule, ofResource(""), withFree("data-web-1", 1))},
		row{"the volumes follow the resource of an operator, and the owner policy is ignore",
			webWith(rule, ofResource(api.OwnerIgnore), withFree("data-web-1", 1))},
		row{"the volumes follow the resource of an operator, and the namespace lets Drydock pause it",
			webWith(rule, ofResource(api.OwnerUpdate), withFree("data-web-1", 1), withConsent(api.ConsentToPause))},
		row{"the volumes follow the resource of an operator, and Drydock may change the resource",
			webWith(rule, ofResource(api.OwnerUpdate), withFree("data-web-1", 1), withConsent(api.ConsentToUpdate))},
	)
}

// TestGrowthBesideRequestOfUser: growth waits for an open request of the user, and leaves every request as it is.
func TestGrowthBesideRequestOfUser(t *testing.T) {
	full := func(options ...build.Option) Input { return webWith(rule, options, withFree("data-web-1", 1)) }
	logs := []build.Option{build.Template("logs", "10Mi", expandable)}
	check(t,
		row{"the user's request has not begun", full(build.Resize("data=150Mi"))},
		row{"the user's request cannot be read", full(build.Resize("data=lots"))},
		row{"the user's request was refused", full(build.Resize("data=150Mi"), withEndedResize(api.Refused, "data=150Mi", time.Minute))},
		row{"the user's request has failed", full(build.Resize("data=150Mi"), withEndedResize(api.Failed, "data=150Mi", time.Minute))},
		row{"the user's request was rolled back", full(build.Resize("data=150Mi"), withEndedResize(api.Succeeded, "data=150Mi",
			time.Minute, build.RollbackOf("x")))},
		row{"the user's request is met", full(build.Resize("data=100Mi"), withEndedResize(api.Succeeded, "data=100Mi", time.Minute))},
		row{"the user's request is met, and had no operation", full(build.Resize("data=100Mi"))},
		row{"the user's request with a minimum size is met", full(build.Resize("data=100Mi+"))},
		row{"the request is auto", full(build.Resize("auto"))},
		row{"the user's request for another template is met", full(append(logs, build.Resize("logs=10Mi@roomy:RWO"))...)},
		row{"the user requests another size, because growth was refused", full(build.Resize("data=150Mi"),
			withFloorsOver("data=110Mi", "data=100Mi", time.Hour), withEndedGrowth(api.Refused, "data=110Mi", time.Minute))},
	)
}

// TestFloorIsOpen: grow-volumes waits while detect-resize carries its floor out, and says when the floor is stuck.
func TestFloorIsOpen(t *testing.T) {
	full := func(options ...build.Option) Input { return webWith(rule, options, withFree("data-web-1", 1)) }
	check(t,
		row{"the floor was just raised", full(withFloors("data=110Mi", time.Minute))},
		row{"the floor has waited for an hour", full(withFloors("data=110Mi", time.Hour))},
		row{"the floor was refused", full(withFloors("data=110Mi", time.Minute), withEndedGrowth(api.Refused, "data=110Mi", time.Minute))},
		row{"the user retries a growth that has failed", full(withFloors("data=110Mi", time.Hour),
			withEndedGrowth(api.Failed, "data=110Mi", time.Minute), build.Annotation(api.RetryAnnotation, "now"))},
	)
}

// TestFloorsEnd: floors go when growth is turned off, or the user decides about the size. The stored growth stays.
func TestFloorsEnd(t *testing.T) {
	grown := []func(*Input){withClaim("data-web-0", "110Mi"), withClaim("data-web-1", "110Mi"), withFree("data-web-0", 50),
		withFree("data-web-1", 50)}
	floor := withFloorsOver("data=110Mi", "data=100Mi", time.Hour)
	with := func(rules string, options ...build.Option) Input {
		return webWith(rules, append([]build.Option{build.Resize("data=100Mi"), floor,
			withEndedResize(api.Succeeded, "data=100Mi", time.Hour, build.Growth("data=110Mi"), asking("data=100Mi"))}, options...), grown...)
	}
	shrunk := withEndedResize(api.Succeeded, "data=90Mi", time.Minute,
		func(r *api.Resize) { r.Templates[0].Size = resource.MustParse("90Mi") })
	check(t,
		row{"growth is on", with(rule)},
		row{"growth is turned off", with("off")},
		row{"the template has no rule any more", with("none=max:1Gi")},
		row{"the rules cannot be read", with("data=lots")},
		row{"the set has no replicas", with(rule, build.Replicas(0))},
		row{"the set has opted out", with("off", build.Label(api.ManagedLabel, ""))},
		row{"the user requests a smaller size", with(rule, build.Resize("data=90Mi"))},
		row{"the user requests a smaller size, and has withdrawn the request after the shrink", with(rule, shrunk, withoutRequest)},
		row{"the user withdraws the request", with(rule, withoutRequest)},
		row{"the floors were copied from another set", with(rule, build.GrowTo("data=110Mi", "", func(g *api.Growth) { g.Set = "shop/other" }))},
	)
}

func asking(request string) func(*api.Resize) { return func(r *api.Resize) { r.Request = request } }

var withoutRequest = build.Edit(func(s *appsv1.StatefulSet) { delete(s.Annotations, api.ResizeAnnotation) })

// TestGrowthAfterEarlierGrowth: the earlier growth has succeeded, or the storage has not carried it out.
func TestGrowthAfterEarlierGrowth(t *testing.T) {
	grown := []func(*Input){withClaim("data-web-0", "110Mi"), withClaim("data-web-1", "110Mi"), withFree("data-web-0", 50),
		withFree("data-web-1", 1)}
	after := func(rule string, ago time.Duration) Input {
		followed := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", "110Mi").Spec })
		return webWith(rule, []build.Option{withFloors("data=110Mi", ago), withEndedGrowth(api.Succeeded, "data=110Mi", ago), followed},
			grown...)
	}
	failed := func(rule string, ago time.Duration, more ...func(*Input)) Input {
		return webWith(rule, []build.Option{withFloors("data=110Mi", ago+time.Hour), withEndedGrowth(api.Failed, "data=110Mi", ago)},
			append([]func(*Input){withFree("data-web-1", 1)}, more...)...)
	}
	requestsMore := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim("x", "110Mi").Spec.Resources.Requests
	})
	check(t,
		row{"nearly full again after ten minutes", after(rule, 10*time.Minute)},
		row{"nearly full again before the interval of the rule has passed", after(rule+",every:1h", 10*time.Minute)},
		row{"nearly full again after the interval of the rule", after(rule+",every:1h", 61*time.Minute)},
		row{"the growth failed five hours ago", failed(rule, 5*time.Hour)},
		row{"the growth failed seven hours ago", failed(rule, 7*time.Hour)},
		row{"the growth failed seven hours ago, and the claims still request it", failed(rule, 7*time.Hour,
			withClaim("data-web-1", "110Mi", hasCapacity("100Mi"), requestsMore), withFree("data-web-1", 1))},
		row{"the growth failed two hours ago, and the rule's interval is one hour", failed(rule+",every:1h", 2*time.Hour)},
	)
}

// TestInvalidRulesAndStoredState: invalid rules are reported once. Unreadable stored state stops growth.
func TestInvalidRulesAndStoredState(t *testing.T) {
	check(t,
		row{"the rule has no limit", web("data=below:10%", withFree("data-web-1", 1))},
		row{"the rule names an unknown template", web("none=max:1Gi", withFree("data-web-1", 1))},
		row{"the stored state cannot be read", webWith(rule, []build.Option{build.Annotation(api.GrowthAnnotation, "{")},
			withFree("data-web-1", 1))},
		row{"the stored state has another " +
			"version", webWith(rule, []build.Option{build.Annotation(api.GrowthAnnotation, `{"version":7,"set":"shop/web"}`)},
			withFree("data-web-1", 1))},
		row{"the stored state belongs to another set", webWith(rule, []build.Option{build.Annotation(api.GrowthAnnotation,
			`{"version":1,"set":"other/web","asked":{}}`)}, withFree("data-web-1", 1))},
		row{"two templates are nearly full", webWith("data=max:200Mi;logs=max:20Mi",
			[]build.Option{build.Template("logs", "10Mi", expandable)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), withFree("data-web-1", 1))},
		row{"two templates are nearly full, and one is at its limit", webWith("data=max:200Mi;logs=max:10Mi",
			[]build.Option{build.Template("logs", "10Mi", expandable)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), withFree("data-web-1", 1))},
	)
}

// TestClaimGrowsBesideOneAtItsLimit: one claim has the size max, another one is smaller. Both are nearly full.
func TestClaimGrowsBesideOneAtItsLimit(t *testing.T) {
	in := web(rule, withClaim("data-web-0", "200Mi"), withFree("data-web-0", 5), withFree("data-web-1", 10))
	if p, warnings := decideWithWarnings(in); p.Reason != api.VolumesGrow {
		t.Errorf("%s, %+v", p, warnings)
	}
}

// TestRefusedTemplateDoesNotBlockOthers: the class of logs does not allow expansion any more, so the growth of logs was refused. Now data
// is nearly full.
func TestRefusedTemplateDoesNotBlockOthers(t *testing.T) {
	logs := build.Template("logs", "10Mi", fixed)
	const rules = "data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi"
	in := webWith(rules, []build.Option{logs, withFloors("logs=11Mi", time.Hour),
		withEndedGrowth(api.Refused, "logs=11Mi", time.Minute, func(r *api.Resize) { r.Reason = api.ExpandImpossible })},
		withClaim("logs-web-0", "10Mi", build.OfClass(fixed)), withFree("logs-web-0", 1), withFree("data-web-1", 1))
	if got := written(Decide(in))[api.GrowToAnnotation]; got != "data=110Mi" {
		t.Errorf("raises %q, want data=110Mi", got)
	}
}

// TestTemplatesTakeTurnsAfterRefusal: two templates are nearly full, and a quota has room for one of them.
func TestTemplatesTakeTurnsAfterRefusal(t *testing.T) {
	const both = "data=110Mi,logs=11Mi"
	after := func(floors string, raised map[string]time.Duration) string {
		growth := build.GrowTo(floors, "", func(g *api.Growth) {
			for template, ago := range raised {
				g.Latest[template] = api.RequestedGrowth{At: metav1.NewTime(build.Now.Add(-ago)), Size: "1Mi", Over: ptr.To("")}
			}
		})
		in := webWith("data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi", []build.Option{build.Template("logs", "10Mi", expandable),
			growth, withEndedGrowth(api.Refused, floors, time.Minute,
				func(r *api.Resize) { r.Reason = api.QuotaExceeded })},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), withFree("data-web-1", 1))
		return written(Decide(in))[api.GrowToAnnotation]
	}
	type ago = map[string]time.Duration
	for name, c := range map[string]struct {
		floors string
		ago    ago
		want   string // "" keeps the floors
	}{
		"both were refused":                    {both, ago{"data": time.Minute, "logs": time.Minute}, "data=110Mi"},
		"one was refused just now":             {"data=110Mi", ago{"data": time.Minute, "logs": time.Hour}, ""},
		"one was refused, now the other":       {"data=110Mi", ago{"data": 20 * time.Minute, "logs": time.Hour}, "logs=11Mi"},
		"the other was refused, now the first": {"logs=11Mi", ago{"data": time.Hour, "logs": 20 * time.Minute}, "data=110Mi"},
		"the other was never requested":        {"data=110Mi", ago{"data": 20 * time.Minute}, "logs=11Mi"},
	} {
		if got := after(c.floors, c.ago); got != c.want {
			t.Errorf("%s: raises %q, want %q", name, got, c.want)
		}
	}
}

// TestFailedTemplateDelaysNoOther: the growth of logs failed an hour ago, and logs has enough space now. data is nearly full.
func TestFailedTemplateDelaysNoOther(t *testing.T) {
	logs := build.Template("logs", "10Mi", expandable)
	const rules = "data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi"
	in := webWith(rules, []build.Option{logs, withFloors("logs=11Mi", 2*time.Hour), withEndedGrowth(api.Failed, "logs=11Mi", time.Hour)},
		withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), withFree("data-web-1", 1))
	if got := written(Decide(in))[api.GrowToAnnotation]; got != "data=110Mi" {
		t.Errorf("raises %q, want data=110Mi", got)
	}
}

// TestFailedTemplatePausesAfterGrowthOfAnother: the growth of logs failed ten minutes ago. Since then data has grown, so logs has no
// floor any more.
func TestFailedTemplatePausesAfterGrowthOfAnother(t *testing.T) {
	growth := build.GrowTo("data=100Mi", "", func(g *api.Growth) {
		g.Latest = map[string]api.RequestedGrowth{
			"logs": {At: metav1.NewTime(build.Now.Add(-15 * time.Minute)), Size: "15Mi", Cause: "it is full", Over: ptr.To("")},
			"data": {At: metav1.NewTime(build.Now.Add(-5 * time.Minute)), Size: "100Mi", Cause: "it was full", Over: ptr.To("")}}
	})
	in := webWith("data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi", []build.Option{build.Template("logs", "10Mi", expandable),
		growth, withEndedGrowth(api.Succeeded, "data=100Mi", 2*time.Minute)},
		withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), withFree("data-web-1", 50))
	if p := Decide(in); written(p)[api.GrowToAnnotation] != "" {
		t.Errorf("%s", p)
	}
}

// TestShrinkIsNoFailedExpansion: growth enlarged the claims two hours ago. An hour ago, the user shrank them again. Now a volume is
// nearly full. Nothing has failed, and the rule has no every, so it must grow.
func TestShrinkIsNoFailedExpansion(t *testing.T) {
	in := webWith(rule, []build.Option{build.Resize("data=100Mi"), withFloors("data=110Mi", 2*time.Hour),
		withEndedResize(api.Succeeded, "data=100Mi", time.Hour, func(r *api.Resize) { r.Templates[0].Size = resource.MustParse("100Mi") })},
		withFree("data-web-1", 1))
	if p, warnings := decideWithWarnings(in); p.Reason != api.VolumesGrow {
		t.Errorf("a volume with 1%% free space does not grow for hours: %s, %+v", p, warnings)
	}
}

// TestTwoFailingTemplatesPause: the storage expands neither data nor logs, which is full ten minutes later. Each pauses for six hours
// after its failure.
func TestTwoFailingTemplatesPause(t *testing.T) {
	options, failures := []build.Option{build.Template("logs", "10Mi", expandable)}, 0
	logs := options[0]
	for minute := range 5 * 60 {
		free := int64(50)
		if minute >= 10 {
			free = 1
		}
		in := webWith("data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi", options, withClaim("logs-web-0", "10Mi"),
			withFree("logs-web-0", free), withFree("data-web-1", 1))
		in.Now = build.Now.Add(time.Duration(minute) * time.Minute)
		for name, u := range in.Usage {
			u.MeasuredAt = in.Now
			in.Usage[name] = u
		}
		wrote := written(Decide(in))
		floors, raised := wrote[api.GrowToAnnotation]
		if !raised {
			continue
		}
		failures++
		options = []build.Option{logs, build.Annotation(api.GrowToAnnotation, floors),
			build.Annotation(api.GrowthAnnotation, wrote[api.GrowthAnnotation]),
			withEndedGrowth(api.Failed, floors, -time.Duration(minute)*time.Minute-30*time.Second)}
	}
	if failures != 2 {
		t.Errorf("%d resizes fail within five hours, want 2", failures)
	}
}

// TestRemovedFloorIsNotRaisedAtOnce: an earlier resize of the template has succeeded. A minute ago, growth raised the floor to 110Mi, and
// another client (a sync that prunes annotations) has removed it before detect-resize began.
func TestRemovedFloorIsNotRaisedAtOnce(t *testing.T) {
	named := func(r *api.Resize) {
		r.Templates = []api.TemplateTarget{{Name: "data", Size: resource.MustParse("100Mi")}}
	}
	raised := build.GrowTo("data=110Mi", "", func(g *api.Growth) {
		g.After = build.ID
		g.Latest["data"] = api.RequestedGrowth{At: metav1.NewTime(build.Now.Add(-time.Minute)), Size: "110Mi", Over: ptr.To("")}
	})
	removed := build.Edit(func(s *appsv1.StatefulSet) { delete(s.Annotations, api.GrowToAnnotation) })
	in := webWith(rule, []build.Option{withEndedResize(api.Succeeded, "data=100Mi+", 24*time.Hour, named), raised, removed},
		withFree("data-web-1", 1))
	if p := Decide(in); written(p)[api.GrowToAnnotation] != "" {
		t.Errorf("the removed floor is raised again after a minute: %s", p)
	}
}

// TestFloors: the floors that growth writes. Afterwards they count for detect-resize.
func TestFloors(t *testing.T) {
	full, logs := withFree("data-web-1", 1), build.Template("logs", "10Mi", expandable)
	for says, row := range map[string]struct {
		in   Input
		want string
	}{
		"there was no floor":                {web(rule, full), "data=110Mi"},
		"the growth is capped by the limit": {web("data=below:20%,by:50Mi,max:120Mi", full), "data=120Mi"},
		"another claim is larger": {web(rule, withClaim("data-web-0", "180Mi"), withFree("data-web-0", 50), full),
			"data=180Mi"},
		"the size is in GiB": {web("data=below:20%,max:20Gi", withClaim("data-web-0", "11Gi"),
			withFree("data-web-0", 1)), "data=13Gi"},
		"the floor of another template stays": {webWith(rule+";logs=max:20Mi", []build.Option{logs, withFloors("logs=10Mi", time.Hour)}, full),
			"data=110Mi,logs=10Mi"},
		"the user requests another template":  {webWith(rule, []build.Option{logs, build.Resize("logs=10Mi@roomy:RWO")}, full), "data=110Mi"},
		"a request of the user is met":        {webWith(rule, []build.Option{build.Resize("data=100Mi")}, full), "data=110Mi"},
		"a request for a smaller size is met": {webWith(rule, []build.Option{build.Resize("data=90Mi+")}, full), "data=110Mi"},
		"the user has shrunk the volumes since the floor": {webWith(rule, []build.Option{build.Resize("data=100Mi"),
			withFloors("data=180Mi", 2*time.Hour), withEndedResize(api.Succeeded, "data=100Mi", time.Hour)}, full), "data=110Mi"},
		"two templates": {webWith("*=max:200Mi", []build.Option{logs}, withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), full),
			"data=110Mi,logs=11Mi"},
		"two templates, and one must pause": {webWith("*=max:200Mi,every:1h", []build.Option{logs, withFloors("data=100Mi", time.Minute)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), full), "data=100Mi,logs=11Mi"},
		"max is written with an exponent": {web("data=below:20%,by:200Mi,max:150e6", full), "data=150000000"},
		"a user has enlarged a claim to a size with an exponent": {web(rule, withClaim("data-web-0", "150e6"),
			withFree("data-web-0", 50), full), "data=150000000"},
		"by is the largest number": {web("data=below:20%,by:9223372036854775807,max:200Mi", full), "data=200Mi"},
		"max was lowered after the growth had failed": {webWith("data=below:20%,by:300Mi,max:200Mi",
			[]build.Option{withFloors("data=400Mi", 9*time.Hour), withEndedGrowth(api.Failed, "data=400Mi", 8*time.Hour)}, full), "data=200Mi"},
		"max was lowered after the growth was refused": {webWith("data=below:20%,by:300Mi,max:200Mi",
			[]build.Option{withFloors("data=400Mi", 9*time.Hour), withEndedGrowth(api.Refused, "data=400Mi", time.Minute)}, full),
			"data=200Mi"},
		"max of another template was lowered after the growth had failed": {webWith("data=below:20%,max:200Mi;logs=max:15Mi",
			[]build.Option{logs, withFloors("data=100Mi,logs=90Mi", 9*time.Hour),
				withEndedGrowth(api.Failed, "data=100Mi,logs=90Mi", 8*time.Hour)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), full), "data=110Mi"},
		"another template has no rule any more": {webWith("data=below:20%,max:200Mi", []build.Option{logs,
			withFloors("data=100Mi,logs=90Mi", 9*time.Hour), withEndedGrowth(api.Failed, "data=100Mi,logs=90Mi", 8*time.Hour)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), full), "data=110Mi"},
	} {
		t.Run(says, func(t *testing.T) {
			set := row.in.Set.DeepCopy()
			write(set, Decide(row.in))
			record := operation.Of(set).Resize
			if got := set.Annotations[api.GrowToAnnotation]; got != row.want || world.GrowTo(set, record, false) != row.want {
				t.Errorf("raises %s, of which %s count, want %s; stores %s", got, world.GrowTo(set, record, false), row.want,
					set.Annotations[api.GrowthAnnotation])
			}
		})
	}
}

// written returns the annotations that the plan writes.
func written(p plan.Plan) map[string]string {
	set := &appsv1.StatefulSet{}
	set.Annotations = map[string]string{}
	write(set, p)
	return set.Annotations
}

// write makes the plan's changes of annotations.
func write(set *appsv1.StatefulSet, p plan.Plan) {
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			for _, key := range []string{api.GrowToAnnotation, api.GrowthAnnotation} {
				if op.Path != "/metadata/annotations/drydock.dev~1"+key[len(api.Prefix):] {
					continue
				}
				if text, ok := op.Value.(string); ok {
					set.Annotations[key] = text
				}
				if op.Op == "remove" {
					delete(set.Annotations, key)
				}
			}
		}
	}
}

// TestShrinkAndGrowthDoNotAlternate: the volumes have grown to 110Mi, and the user requests 90Mi. They shrink once. Then they are nearly
// full, and grow once. The request for 90Mi, which stays on the set, makes them shrink no second time.
func TestShrinkAndGrowthDoNotAlternate(t *testing.T) {
	var operations []string
	options, size := []build.Option{build.Resize("data=90Mi"), withFloorsOver("data=110Mi", "data=100Mi", time.Hour)}, "110Mi"
	for range 12 {
		free := int64(50)
		if size == "90Mi" {
			free = 1
		}
		in := webWith(rule, options, withClaim("data-web-0", size), withClaim("data-web-1", size), withFree("data-web-0", 50),
			withFree("data-web-1", free), editSet(func(s *appsv1.StatefulSet) {
				s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", size).Spec
			}))
		write(in.Set, Decide(in))
		options = nil
		for key, value := range in.Set.Annotations {
			options = append(options, build.Annotation(key, value))
		}
		observed := resize.Input{Observed: in.Observed, Settings: build.Settings()}
		if changes, _, _ := resize.NeededChanges(observed); changes != nil {
			record := changes.Record(observed)
			record.Phase, record.Finished = api.Succeeded, ptr.To(metav1.NewTime(build.Now.Add(-time.Minute)))
			operations, size = append(operations, record.Purpose()), record.Templates[0].Size.String()
			options = append(options, build.Status(record))
		}
	}
	if got := strings.Join(operations, ", "); got != "data=90Mi, data=99Mi" {
		t.Errorf("the operations are %s", got)
	}
}

// TestSecondDecisionWritesNothing: after the first decision's writes, the second one changes nothing.
func TestSecondDecisionWritesNothing(t *testing.T) {
	for says, in := range map[string]Input{
		"growth was requested":     web(rule, withFree("data-web-1", 1)),
		"a volume is at its limit": web("data=max:100Mi", withFree("data-web-1", 1)),
		"no usage is known":        web(rule, withoutUsage("data-web-0"), withoutUsage("data-web-1")),
		"the rules are invalid":    web("lots", withFree("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			first := Decide(in)
			if first.Kind != plan.KindDo {
				t.Fatalf("%v", first)
			}
			write(in.Set, first)
			if again := Decide(in); again.Kind != plan.KindNoop {
				t.Errorf("%v", again)
			}
		})
	}
}

// TestStoredGrowthStaysReadable: whatever users write, the function can read its stored state again.
func TestStoredGrowthStaysReadable(t *testing.T) {
	var many []string
	for i := range 350 {
		many = append(many, fmt.Sprintf("%s-%d=1Gi", strings.Repeat("t", 55), i))
	}
	long := strings.Join(many, ",")
	for says, in := range map[string]Input{
		"rules with many characters that JSON escapes": web(strings.Repeat("\x01", 4<<10), withFree("data-web-1", 1)),
		"a refused request for many templates": webWith(rule, []build.Option{build.Resize(long),
			withEndedResize(api.Refused, long, time.Minute)},
			withFree("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			set := in.Set.DeepCopy()
			write(set, Decide(in))
			if growth, err := api.LoadGrowth(set); err != nil || growth == nil || len(growth.Warnings) != 1 {
				t.Errorf("%d bytes: %v, %v", len(set.Annotations[api.GrowthAnnotation]), growth != nil, err)
			}
		})
	}
}

// TestGrowthOfAFastClockPausesNoDays: a node whose clock was thirty days ahead requested the latest growth. The volume is nearly
// full again, and must not wait for thirty days with every:6h.
func TestGrowthOfAFastClockPausesNoDays(t *testing.T) {
	growth := &api.Growth{Latest: map[string]api.RequestedGrowth{"data": {At: metav1.NewTime(build.Now.Add(30 * 24 * time.Hour))}}}
	in := Input{Observed: &world.Observed{Now: build.Now.Add(7 * time.Hour), Set: build.Set("web")}}
	if in.mustPause(growth, need{template: "data", rule: api.GrowRule{Every: 6 * time.Hour}}, nothingOpen) {
		t.Error("the template does not grow for thirty days")
	}
	if in.mustPause(growth, need{template: "data"}, nothingOpen) {
		t.Error("a rule without every does not grow for thirty days")
	}
}

// TestResizeEndOfAFastClockStopsNoGrowth: a node whose clock was thirty days ahead wrote the end of the latest resize. All figures look
// older than that. A volume with 1 % free space must not wait for thirty days, without a Warning.
func TestResizeEndOfAFastClockStopsNoGrowth(t *testing.T) {
	in := webWith(rule, []build.Option{build.Resize("data=100Mi+"),
		withEndedResize(api.Succeeded, "data=100Mi+", -30*24*time.Hour)}, withFree("data-web-1", 1))
	p, warnings := decideWithWarnings(in)
	if got := written(p)[api.GrowToAnnotation]; got != "data=110Mi" {
		t.Errorf("the nearly full volume does not grow: %s, %+v", p, warnings)
	}
}

// TestStalledFloorOfAFastClockIsReported: a process with a clock thirty days ahead raised the floor, and its growth has not begun.
func TestStalledFloorOfAFastClockIsReported(t *testing.T) {
	in := webWith(rule, []build.Option{withFloors("data=110Mi", -30*24*time.Hour)},
		withFree("data-web-1", 1))
	if p, warnings := decideWithWarnings(in); len(warnings) != 1 {
		t.Errorf("nothing says for thirty days that the volume does not grow: %s, %+v", p, warnings)
	}
}

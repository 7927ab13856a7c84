package growvolumes

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMissingSeriesOfFreeInodesGrowsNothing: half of the space is free, and Prometheus has no series inodes_free.
func TestMissingSeriesOfFreeInodesGrowsNothing(t *testing.T) {
	mib := func(n int) string { return fmt.Sprint(n << 20) }
	_, in, f := prometheusWith(t, 200, vector(series("capacity_bytes", mib(100)), series("available_bytes", mib(50)),
		series("inodes", "65536")))
	in.Usage = f.measure(t.Context(), in)
	if u := in.Usage["data-web-0"]; u.Capacity == 0 || u.Inodes != 0 {
		t.Errorf("%+v", u)
	}
	for _, a := range Decide(in).Actions {
		if a.Resource == plan.StatefulSets {
			t.Errorf("a half-empty volume grows: %s", a)
		}
	}
}

// TestClaimGrowsBesideOneAtItsLimit: one claim has the size max, another one is smaller. Both are nearly full.
func TestClaimGrowsBesideOneAtItsLimit(t *testing.T) {
	in := web(rule, withClaim("data-web-0", "200Mi"), withFree("data-web-0", 5), withFree("data-web-1", 10))
	if p, warnings := decideWithWarnings(in); p.Reason != api.VolumesGrow {
		t.Errorf("%s, %+v", p, warnings)
	}
}

// TestRefusedTemplateDoesNotBlockOthers: the class of logs does not allow expansion any more, so the request for logs was refused. Now data
// is nearly full.
func TestRefusedTemplateDoesNotBlockOthers(t *testing.T) {
	logs := build.Template("logs", "10Mi", fixed)
	const rules = "data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi"
	in := webWith(rules, []build.Option{logs, build.Resize("logs=11Mi+"), withOwnRequest("logs=11Mi+", time.Hour),
		withEndedResize(api.Refused, "logs=11Mi+", time.Minute, func(r *api.Resize) { r.Reason = api.ExpandImpossible })},
		withClaim("logs-web-0", "10Mi", build.OfClass(fixed)), withFree("logs-web-0", 1), withFree("data-web-1", 1))
	if got := written(Decide(in))[api.ResizeAnnotation]; got != "data=110Mi+" {
		t.Errorf("requests %q, want data=110Mi+", got)
	}
}

// TestFailedTemplateDelaysNoOther: the growth of logs failed an hour ago, and logs has enough space now. data is nearly full.
func TestFailedTemplateDelaysNoOther(t *testing.T) {
	logs := build.Template("logs", "10Mi", expandable)
	const rules = "data=below:20%,by:10%,max:200Mi;logs=below:20%,max:50Mi"
	growth := withGrowth(func(g *api.Growth) {
		g.Request = "logs=11Mi+"
		g.Latest = map[string]api.RequestedGrowth{"logs": {At: metav1.NewTime(build.Now.Add(-2 * time.Hour)), Size: "11Mi", Cause: "it was full"}}
	})
	in := webWith(rules, []build.Option{logs, build.Resize("logs=11Mi+"), growth, withEndedResize(api.Failed, "logs=11Mi+", time.Hour)},
		withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), withFree("data-web-1", 1))
	if got := written(Decide(in))[api.ResizeAnnotation]; got != "data=110Mi+" {
		t.Errorf("requests %q, want data=110Mi+", got)
	}
}

// TestClaimOfAnotherClusterIsNotTaken: one Prometheus has the series of two clusters, and both have a claim with this name.
func TestClaimOfAnotherClusterIsNotTaken(t *testing.T) {
	mib := func(n int) string { return fmt.Sprint(n << 20) }
	_, in, f := prometheusWith(t, 200, vector(
		series("capacity_bytes", mib(100), "cluster", "prod"), series("available_bytes", mib(1), "cluster", "prod"),
		series("capacity_bytes", mib(100), "cluster", "test", "node", "b"), series("available_bytes", mib(90), "cluster", "test", "node", "b")))
	in.Usage = f.measure(t.Context(), in)
	if u := in.Usage["data-web-0"]; u.Capacity != 0 {
		t.Errorf("%+v", u)
	}
}

package resize

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// retainedVolume returns an old volume of the claim whose retention ends after the given hours.
func retainedVolume(name, claim, size string, hours int) *corev1.PersistentVolume {
	c := build.Claim(claim, size)
	until := build.Now.Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	return build.Volume(name, c, build.Retained(api.RoleOldVolume, claim), build.Released(),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

func (in Input) withRetainedLimit(retained int) Input {
	in.Settings.RetainedVolumes = retained
	return in
}

// preflight is an input, and the reasons of the problems that are expected.
type preflight struct {
	in   Input
	want string
}

// expectProblems runs the preflight of each row. The messages of the problems are in the golden file.
func expectProblems(t *testing.T, rows map[string]preflight) {
	t.Helper()
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			found := Preflight(row.in, Compare(row.in))
			if got := reasons(found); got != row.want {
				t.Errorf("found %s, want %s: %v", got, row.want, found)
			}
			file.Entry(t, name, describe(found))
		})
	}
}

// describe renders the problems, one a line.
func describe(problems []Problem) string {
	if len(problems) == 0 {
		return "no problem"
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, string(p.Reason)+": "+p.Message)
	}
	return strings.Join(lines, "\n")
}

func TestOldVolumesOfClaimAreLimited(t *testing.T) {
	kept := objects{retainedVolume("pv-b", "data-web-0", "64Mi", 7), retainedVolume("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"the limit is reached":            {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(2), "TooManyRetained"},
		"the limit is not reached":        {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(3), ""},
		"there is no limit":               {input(setAsking("data=128Mi@fast"), twoClaims(), kept).withRetainedLimit(0), ""},
		"expansion leaves no old volumes": {input(setAsking("data=128Mi"), twoClaims(), kept).withRetainedLimit(2), ""},
		"old volumes of another claim do not count": {input(setAsking("data=128Mi@fast"), expandable("data-web-1", "64Mi"),
			kept).withRetainedLimit(2), ""},
		"no old volume is retained": {input(setAsking("data=128Mi@fast"), twoClaims()).withRetainedLimit(1), ""},
	})
}

func TestOldVolumesCountInStorageQuota(t *testing.T) {
	const storage = "requests.storage"
	other := retainedVolume("pv-other", "data-db-0", "1Gi", 3)
	with := func(in Input) Input {
		in.OthersRetained = append(in.OthersRetained, other)
		return in
	}
	own := objects{retainedVolume("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"the set's old volumes: 128 used, 256 more, 64 retained": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own), storage,
			"447Mi", "128Mi"),
			"QuotaExceeded"},
		"there is room for the old volumes": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own), storage, "448Mi", "128Mi"), ""},
		"old volumes of another set": {with(quota(input(setAsking("data=128Mi@fast"), twoClaims()), storage, "1Gi", "128Mi")),
			"QuotaExceeded"},
		"old volumes of another class, in a quota for one class": {quota(input(setAsking("data=128Mi@fast"), twoClaims(), own),
			"fast.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), ""},
		"old volumes of the quota's class": {quota(input(setAsking("data=128Mi@fixed"), twoClaims(), own),
			"fixed.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), "QuotaExceeded"},
		"expansion does not count old volumes": {quota(input(setAsking("data=128Mi"), twoClaims(), own), storage, "256Mi", "128Mi"), ""},
		"a quota with a scope may not count the claim": {scoped(quota(input(setAsking("data=128Mi@fast"), twoClaims()), storage, "1Mi", "0")),
			""},
	})
}

func scoped(in Input) Input {
	in.Cluster.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	return in
}

func TestMoversCountInPodQuota(t *testing.T) {
	copies := func(options ...build.Option) Input {
		in := input(setAsking("data=128Mi@fast", options...), twoClaims())
		in.Settings = build.Settings() // two at once
		return in
	}
	one := build.Annotation(api.ResizeParallelismAnnotation, "1")
	rolling := build.Annotation(api.StrategyAnnotation, string(api.StrategyRolling))
	limited := build.Annotation(api.MoverAnnotation, "resources: {limits: {cpu: 300m}}")
	expectProblems(t, map[string]preflight{
		"two movers, room for one mover":                                 {quota(copies(), "pods", "3", "2"), "QuotaExceeded"},
		"two movers, room for both movers":                               {quota(copies(), "pods", "4", "2"), ""},
		"parallelism 1, but both movers wait for the stop":               {quota(copies(one), "pods", "3", "2"), "QuotaExceeded"},
		"parallelism 1, and the set is at zero":                          {quota(copies(one, build.Replicas(0)), "pods", "3", "2"), ""},
		"one member after the other":                                     {quota(copies(rolling), "pods", "3", "2"), ""},
		"one member after the other: both Jobs count, because they stay": {quota(copies(rolling), "count/jobs.batch", "1", "0"), "QuotaExceeded"},
		"requests of the movers":                                         {quota(copies(), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"requests under the older name":                                  {quota(copies(), "memory", "127Mi", "0"), "QuotaExceeded"},
		"limits of the movers":                                           {quota(copies(), "limits.memory", "2Gi", "1"), "QuotaExceeded"},
		"a limit keeps the mover's own request":                          {quota(copies(limited), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"a quota for a limit that movers lack is left to the API server": {quota(copies(), "limits.cpu", "1", "1"), ""},
		"expansion needs no movers": {quota(input(setAsking("data=128Mi"), twoClaims()), "pods", "2", "2"),
			""},
		"an exhausted quota for another resource": {quota(copies(), "services", "1", "1"), ""},
		"a pod quota with a scope is skipped":     {scoped(quota(copies(), "pods", "1", "1")), ""},
	})
}

func TestLargeAnnotationsAreRefused(t *testing.T) {
	text := func(bytes int) build.Option { return build.Annotation("example.com/notes", strings.Repeat("x", bytes)) }
	large := func(claimBytes, volumeBytes int) Input {
		c := build.Claim("data-web-0", "64Mi", build.OfClass(expandableClass), text(claimBytes))
		return input(setAsking("data=128Mi@fast"), objects{c, build.VolumeOf(c, text(volumeBytes))})
	}
	expectProblems(t, map[string]preflight{
		"a claim of 250 KiB does not fit on its volume":                      {large(250<<10, 0), "RecordTooLarge"},
		"together with the volume's own annotations, the claim does not fit": {large(150<<10, 100<<10), "RecordTooLarge"},
		"the claim alone fits": {large(150<<10, 0), ""},
		"a set of 250 KiB has no room for the record": {input(setAsking("data=128Mi@fast", text(250<<10)), twoClaims()),
			"TooManyClaims RecordTooLarge"},
		"the set's present record is replaced and does not count": {input(setAsking("data=128Mi@fast",
			build.Annotation(api.StatusAnnotation, strings.Repeat("x", 150<<10))), twoClaims()), ""},
		"a large claim can grow in place":          {input(setAsking("data=128Mi"), expandable("data-web-0", "64Mi", text(250<<10))), ""},
		"many claims need a large record":          {manyClaims(200, text(150<<10)), "RecordTooLarge"},
		"many claims fit beside small annotations": {manyClaims(200, text(10<<10)), ""},
	})
}

// manyClaims returns a set with the given number of claims, which all have to be copied.
func manyClaims(claims int, options ...build.Option) Input {
	var all objects
	for i := range claims {
		all = append(all, expandable(fmt.Sprintf("data-web-%d", i), "64Mi")...)
	}
	return input(setAsking("data=128Mi@fast", options...), all)
}

func TestUnfinishedAttributesChangeIsRefused(t *testing.T) {
	gold := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	infeasible := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold",
			Status: corev1.PersistentVolumeClaimModifyVolumeInfeasible}
	})
	has := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	of := func(request string, volume build.Option, options ...build.Option) Input {
		c := build.Claim("data-web-0", "64Mi", append([]build.Option{build.OfClass(expandableClass),
			build.Edit(func(c *corev1.PersistentVolumeClaim) {
				c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
			})}, options...)...)
		v := build.VolumeOf(c)
		if volume != nil {
			v = build.VolumeOf(c, volume)
		}
		return input(setAsking(request), objects{c, v})
	}
	expectProblems(t, map[string]preflight{
		"the change is infeasible":                     {of("data=128Mi@fast", nil, gold, infeasible), "ClaimBusy"},
		"the change is done":                           {of("data=128Mi@fast", has, gold), ""},
		"the change has not started":                   {of("data=128Mi@fast", nil, gold), "ClaimBusy"},
		"expansion does not mind an infeasible change": {of("data=128Mi", nil, gold, infeasible), ""},
		"a claim without an attributes class":          {of("data=128Mi@fast", nil), ""},
	})
}

// TestBandwidth: a tenant writes the annotation, and "1e-99999999" would take minutes to parse.
func TestBandwidth(t *testing.T) {
	for text, want := range map[string]int64{"50Mi": 50 << 20, "": 0, "fast": 0, "-1": 0, "1e-99999999": 0} {
		in := input(setAsking("data=128Mi@fast", build.Annotation(api.BandwidthAnnotation, text)))
		if got := bandwidth(in.Observed); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

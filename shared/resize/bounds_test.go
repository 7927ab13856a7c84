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

// leftBehind is an old volume of the claim that is kept for so many hours.
func leftBehind(name, claim, size string, hours int) *corev1.PersistentVolume {
	c := build.Claim(claim, size)
	until := build.Now.Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	return build.Volume(name, c, build.Retained(api.RoleRetired, claim), build.Released(),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

func (in Input) allowing(retained int) Input {
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
			found := Preflight(row.in, Read(row.in))
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

func TestOldVolumesOfAClaimAreBounded(t *testing.T) {
	kept := objects{leftBehind("pv-b", "data-web-0", "64Mi", 7), leftBehind("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"one more than are allowed":            {given(wants("data=128Mi@fast"), two(), kept).allowing(2), "TooManyRetained"},
		"as many as are allowed":               {given(wants("data=128Mi@fast"), two(), kept).allowing(3), ""},
		"any number is allowed":                {given(wants("data=128Mi@fast"), two(), kept).allowing(0), ""},
		"claims that grow leave none":          {given(wants("data=128Mi"), two(), kept).allowing(2), ""},
		"those of another claim do not count":  {given(wants("data=128Mi@fast"), grower("data-web-1", "64Mi"), kept).allowing(2), ""},
		"a volume that is not kept is no more": {given(wants("data=128Mi@fast"), two()).allowing(1), ""},
	})
}

func TestOldVolumesCountInAQuotaOfStorage(t *testing.T) {
	const storage = "requests.storage"
	other := leftBehind("pv-other", "data-db-0", "1Gi", 3)
	with := func(in Input) Input {
		in.OthersRetained = append(in.OthersRetained, other)
		return in
	}
	own := objects{leftBehind("pv-a", "data-web-0", "64Mi", 3)}
	expectProblems(t, map[string]preflight{
		"the set's own: 128 used, 256 more, 64 kept": {quota(given(wants("data=128Mi@fast"), two(), own), storage, "447Mi", "128Mi"),
			"QuotaExceeded"},
		"there is room for them": {quota(given(wants("data=128Mi@fast"), two(), own), storage, "448Mi", "128Mi"), ""},
		"another set's": {with(quota(given(wants("data=128Mi@fast"), two()), storage, "1Gi", "128Mi")),
			"QuotaExceeded"},
		"of another class, in a quota of a class": {quota(given(wants("data=128Mi@fast"), two(), own),
			"fast.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), ""},
		"of the class of the quota": {quota(given(wants("data=128Mi@fixed"), two(), own),
			"fixed.storageclass.storage.k8s.io/requests.storage", "256Mi", "0"), "QuotaExceeded"},
		"claims that grow add nothing to old volumes":  {quota(given(wants("data=128Mi"), two(), own), storage, "256Mi", "128Mi"), ""},
		"a quota with a scope may not count the claim": {scoped(quota(given(wants("data=128Mi@fast"), two()), storage, "1Mi", "0")), ""},
	})
}

func scoped(in Input) Input {
	in.Cluster.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	return in
}

func TestMoversCountInAQuotaOfPods(t *testing.T) {
	copies := func(options ...build.Option) Input {
		in := given(wants("data=128Mi@fast", options...), two())
		in.Settings = build.Settings() // two at once
		return in
	}
	one := build.Annotation(api.ResizeParallelismAnnotation, "1")
	limited := build.Annotation(api.MoverAnnotation, "resources: {limits: {cpu: 300m}}")
	expectProblems(t, map[string]preflight{
		"two movers, room for one":                   {quota(copies(), "pods", "3", "2"), "QuotaExceeded"},
		"two movers, room for both":                  {quota(copies(), "pods", "4", "2"), ""},
		"one at a time":                              {quota(copies(one), "pods", "3", "2"), ""},
		"the Jobs stay until the set is stopped":     {quota(copies(one), "count/jobs.batch", "1", "0"), "QuotaExceeded"},
		"what movers ask for":                        {quota(copies(), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"under the older name":                       {quota(copies(), "memory", "127Mi", "0"), "QuotaExceeded"},
		"what they may use":                          {quota(copies(), "limits.memory", "2Gi", "1"), "QuotaExceeded"},
		"a limit leaves the mover's own request":     {quota(copies(limited), "requests.cpu", "199m", "0"), "QuotaExceeded"},
		"a limit that a mover lacks is the API's":    {quota(copies(), "limits.cpu", "1", "1"), ""},
		"claims that grow have no movers":            {quota(given(wants("data=128Mi"), two()), "pods", "2", "2"), ""},
		"a quota of something else that is used up":  {quota(copies(), "services", "1", "1"), ""},
		"a quota of pods with a scope is not judged": {scoped(quota(copies(), "pods", "1", "1")), ""},
	})
}

func TestAnnotationsLeaveRoomForDocuments(t *testing.T) {
	text := func(bytes int) build.Option { return build.Annotation("example.com/notes", strings.Repeat("x", bytes)) }
	large := func(claimBytes, volumeBytes int) Input {
		c := build.Claim("data-web-0", "64Mi", build.OfClass(roomy), text(claimBytes))
		return given(wants("data=128Mi@fast"), objects{c, build.VolumeOf(c, text(volumeBytes))})
	}
	expectProblems(t, map[string]preflight{
		"a claim of 250 KiB does not fit on its volume": {large(250<<10, 0), "DocumentTooLarge"},
		"with the volume's own annotations":             {large(150<<10, 100<<10), "DocumentTooLarge"},
		"each of them alone fits":                       {large(150<<10, 0), ""},
		"a set of 250 KiB has no room for the status": {given(wants("data=128Mi@fast", text(250<<10)), two()),
			"TooManyClaims DocumentTooLarge"},
		"its own status is replaced, and does not count": {given(wants("data=128Mi@fast",
			build.Annotation(api.StatusAnnotation, strings.Repeat("x", 150<<10))), two()), ""},
		"a claim of 250 KiB that grows is left as it is":  {given(wants("data=128Mi"), grower("data-web-0", "64Mi", text(250<<10))), ""},
		"many claims have a status that needs that much":  {many(200, text(150<<10)), "DocumentTooLarge"},
		"many claims have room beside a few annotations ": {many(200, text(10<<10)), ""},
	})
}

// many is a set with as many claims, to be copied.
func many(claims int, options ...build.Option) Input {
	var all objects
	for i := range claims {
		all = append(all, grower(fmt.Sprintf("data-web-%d", i), "64Mi")...)
	}
	return given(wants("data=128Mi@fast", options...), all)
}

func TestAttributesClassThatTheVolumeHasNotIsRefused(t *testing.T) {
	gold := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	infeasible := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "gold",
			Status: corev1.PersistentVolumeClaimModifyVolumeInfeasible}
	})
	has := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	of := func(request string, volume build.Option, options ...build.Option) Input {
		c := build.Claim("data-web-0", "64Mi", append([]build.Option{build.OfClass(roomy), build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
		})}, options...)...)
		v := build.VolumeOf(c)
		if volume != nil {
			v = build.VolumeOf(c, volume)
		}
		return given(wants(request), objects{c, v})
	}
	expectProblems(t, map[string]preflight{
		"the change cannot be done":      {of("data=128Mi@fast", nil, gold, infeasible), "ClaimBusy"},
		"the change is done":             {of("data=128Mi@fast", has, gold), ""},
		"nobody has begun with it":       {of("data=128Mi@fast", nil, gold), "ClaimBusy"},
		"a claim that grows may go on":   {of("data=128Mi", nil, gold, infeasible), ""},
		"a claim without any such class": {of("data=128Mi@fast", nil), ""},
	})
}

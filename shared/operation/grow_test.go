package operation_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// claim returns a claim that requests one size and whose volume has another. The storage has refused or attempts a size.
func claim(requested, capacity, attempted string, state corev1.ClaimResourceStatus) *corev1.PersistentVolumeClaim {
	return build.Claim("data-web-0", requested, build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(attempted)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	}))
}

// TestRequestIsLoweredOnlyAfterRefusal: a request can always be raised.
func TestRequestIsLoweredOnlyAfterRefusal(t *testing.T) {
	const inProgress, cannot = corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible
	size := resource.MustParse("128Mi")
	for name, row := range map[string]struct {
		claim            *corev1.PersistentVolumeClaim
		requests, lowers string
	}{
		"less":                                {claim("64Mi", "64Mi", "64Mi", ""), "request 64Mi to 128Mi", ""},
		"less than its volume has":            {claim("64Mi", "1Gi", "64Mi", ""), "request 64Mi to 128Mi", ""},
		"less, which was refused":             {claim("100Mi", "64Mi", "100Mi", cannot), "request 100Mi to 128Mi", ""},
		"as much":                             {claim("128Mi", "64Mi", "128Mi", inProgress), "", ""},
		"as much, which was refused":          {claim("128Mi", "64Mi", "128Mi", cannot), "", ""},
		"more, which the storage works on":    {claim("1Ti", "64Mi", "1Ti", inProgress), "", ""},
		"more, another size was refused":      {claim("1Ti", "64Mi", "256Mi", cannot), "", ""},
		"more, which was refused":             {claim("1Ti", "64Mi", "1Ti", cannot), "request 1Ti to 128Mi", "request 1Ti to 128Mi"},
		"more, refused, the volume has 128Mi": {claim("1Ti", "128Mi", "1Ti", cannot), "request 1Ti to 134217729", "request 1Ti to 134217729"},
		"more, refused, the volume has 256Mi": {claim("1Ti", "256Mi", "1Ti", cannot), "request 1Ti to 268435457", "request 1Ti to 268435457"},
		"a byte more than its volume has":     {claim("134217729", "128Mi", "1Ti", cannot), "", ""},
	} {
		for what, got := range map[string]struct {
			patch *plan.Patch
			want  string
		}{
			"RequestSize":  {operation.RequestSize(row.claim, size), row.requests},
			"LowerRequest": {operation.LowerRequest(row.claim, size), row.lowers},
		} {
			want := "[]"
			if got.want != "" {
				want = "[patch persistentvolumeclaims data-web-0 {" + got.want + "}]"
			}
			if is := fmt.Sprint(got.patch.Actions()); is != want {
				t.Errorf("%s: %s: %s, want %s", name, what, is, want)
			}
		}
	}
}

// TestAbortNamesGrowingClaims: each claim that the storage still grows counts once.
func TestAbortNamesGrowingClaims(t *testing.T) {
	const inProgress, cannot = corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible
	record := build.Operation(api.Moving, build.Members(api.MemberGrowing, "data-web-0"))
	record.Expansions = []api.Expansion{{Claim: "data-web-0"}, {Claim: "data-web-1"}}
	for name, row := range map[string]struct {
		claims  map[string]*corev1.PersistentVolumeClaim
		inPlace bool
		want    string
	}{
		"one, in both lists": {map[string]*corev1.PersistentVolumeClaim{"data-web-0": claim("128Mi", "64Mi", "128Mi", inProgress)}, true,
			"still grows claim data-web-0 to 128Mi, because"},
		"two": {map[string]*corev1.PersistentVolumeClaim{"data-web-0": claim("128Mi", "64Mi", "128Mi", inProgress),
			"data-web-1": claim("128Mi", "64Mi", "128Mi", inProgress)}, false, "still grows claim data-web-0 (and 1 other claim) to 128Mi"},
		"refused, grown": {map[string]*corev1.PersistentVolumeClaim{"data-web-0": claim("128Mi", "64Mi", "128Mi", cannot),
			"data-web-1": claim("128Mi", "128Mi", "128Mi", "")}, true, ""},
	} {
		record.Moves()[0].InPlace = row.inPlace
		got := operation.GrowthContinues(record, func(name string) *corev1.PersistentVolumeClaim { return row.claims[name] })
		if got == "" != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

package detectresize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRejectedExpansionOnRoundedVolumesIsNoShrink: the storage makes no volumes below 1Gi, so claims of 64Mi have volumes of 1Gi. A webhook
// rejects that they request 512Mi, so nothing has changed. The user takes the request back, or requests a little less. No volume has to
// shrink, so no member stops.
func TestRejectedExpansionOnRoundedVolumesIsNoShrink(t *testing.T) {
	both := append(expandable("data-web-0", "64Mi", "1Gi"), expandable("data-web-1", "64Mi", "1Gi")...)
	in := func(record *api.Resize, request string) Input {
		options := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2), build.Resize(request)}
		if record == nil {
			return given(objects{build.Set("web", append(options, build.Template("data", "64Mi", expandableClass))...)}, both, pods())
		}
		return given(expandableSet(record, options...), both, pods())
	}
	p := Decide(in(nil, "data=512Mi"))
	t.Log(p)
	record := build.Stored(p)
	for range 4 {
		p = Decide(with(in(record, "data=512Mi"), func(i *Input) { i.Rejected = "admission webhook denied the request" }))
		t.Log(p)
		if next := build.Stored(p); next != nil {
			record = next
		}
		if record.Phase == api.Failed {
			break
		}
	}
	if record.Phase != api.Failed || record.Reason != api.Rejected {
		t.Fatal(build.Words(record))
	}
	for _, request := range []string{"data=64Mi", "data=256Mi"} {
		p := Decide(in(record, request))
		t.Log(p)
		if r := build.Stored(p); r != nil && len(r.Members) > 0 {
			t.Errorf("%s: the claims request 64Mi, as before, and %d members stop to copy their volumes to smaller ones: %s", request,
				len(r.Members), p)
		}
	}
}

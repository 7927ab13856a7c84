package detectresize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// cleanup-pod has to see the retry of its cleanup: whoever looks first must not take it.
func TestRetryOfACleanupIsLeftToCleanupPod(t *testing.T) {
	failed := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345",
		Phase: api.Failed,
		Set:   api.SetRef{Name: "web", UID: "uid-web"}}}
	retry, template := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.CleanupTemplateAnnotation, "{}")
	cleaned := build.Annotation(api.CleanupAnnotation, failed.Encode())
	served := build.Resize("data=64Mi")
	check(t,
		row{"the retry is about a resize", given(set(served, retry))},
		row{"the retry is about a cleanup", given(set(served, retry, template, cleaned))},
	)
	for name, row := range map[string]struct {
		options []build.Option
		taken   bool
	}{
		"a resize begins":                          {[]build.Option{retry}, true},
		"a resize begins, a cleanup has failed":    {[]build.Option{retry, template, cleaned}, false},
		"one is refused":                           {[]build.Option{retry, build.Resize("much")}, true},
		"one is refused, and a cleanup has failed": {[]build.Option{retry, template, cleaned, build.Resize("much")}, false},
	} {
		taken := false
		for _, a := range Decide(given(set(row.options...), both())).Actions {
			for _, op := range a.Ops {
				taken = taken || op.Op == "remove" && op.Path == "/metadata/annotations/drydock.dev~1retry"
			}
		}
		if taken != row.taken {
			t.Errorf("%s: the retry is taken: %v", name, taken)
		}
	}
}

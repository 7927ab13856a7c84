package detectresize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRetryOfCleanupIsLeftToCleanupPod: cleanup-pod has to see the retry of its cleanup, so detect-resize must not remove the annotation.
func TestRetryOfCleanupIsLeftToCleanupPod(t *testing.T) {
	failed := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345",
		Phase: api.Failed,
		Set:   api.SetRef{Name: "web", UID: "uid-web"}}}
	retry, template := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.CleanupTemplateAnnotation, "{}")
	cleaned := build.Annotation(api.CleanupAnnotation, failed.Encode())
	upToDate := build.Resize("data=64Mi")
	check(t,
		row{"the retry is for a resize", given(set(upToDate, retry))},
		row{"the retry is for a cleanup", given(set(upToDate, retry, template, cleaned))},
	)
	for name, row := range map[string]struct {
		options []build.Option
		removed bool
	}{
		"a resize starts": {[]build.Option{retry}, true},
		"a resize starts, and a cleanup has failed":     {[]build.Option{retry, template, cleaned}, false},
		"a resize is refused":                           {[]build.Option{retry, build.Resize("much")}, true},
		"a resize is refused, and a cleanup has failed": {[]build.Option{retry, template, cleaned, build.Resize("much")}, false},
	} {
		removed := false
		for _, a := range Decide(given(set(row.options...), bothMembers())).Actions {
			for _, op := range a.Ops {
				removed = removed || op.Op == "remove" && op.Path == "/metadata/annotations/drydock.dev~1retry"
			}
		}
		if removed != row.removed {
			t.Errorf("%s: the retry annotation is removed: %v", name, removed)
		}
	}
}

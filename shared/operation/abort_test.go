package operation_test

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestAbortByManifestIsCalledWithdrawn: a user who applied a manifest did not abort anything.
func TestAbortByManifestIsCalledWithdrawn(t *testing.T) {
	for value, want := range map[string]string{"withdrawn": "withdrawn by an applied manifest; ", "now": "", build.ID: ""} {
		if got := operation.AbortWords(build.Set("web", build.Annotation(api.AbortAnnotation, value))); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

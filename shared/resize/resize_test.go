package resize

import (
	"fmt"
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// TestRequestWithManyTemplatesNeedsLittleMemory: a tenant may write 256 KiB of template names. One message for each name, each quoting the
// whole request, would need gigabytes.
func TestRequestWithManyTemplatesNeedsLittleMemory(t *testing.T) {
	for parts, want := range map[int]api.Reason{1000: "", 6000: api.RequestInvalid} {
		var text []string
		for i := range parts {
			text = append(text, fmt.Sprintf("t%d=1", i))
		}
		in := input(setAsking(strings.Join(text, ",")), twoClaims())
		bytes := 0
		for _, p := range Compare(in).Problems {
			bytes += len(p.Message)
		}
		if bytes > 1<<20 {
			t.Errorf("the problems with a request of %d templates have %d bytes", parts, bytes)
		}
		if _, reason, err := NeededChanges(in); reason != want || (err != nil) != (want != "") {
			t.Errorf("a request of %d templates: %q, %v", parts, reason, err)
		}
	}
}

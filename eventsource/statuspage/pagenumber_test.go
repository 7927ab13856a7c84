package statuspage

import (
	"testing"
	"time"

	"drydock.dev/shared/overview"
)

// TestHugePageNumberIsRefused: a number of a page that overflows when it is multiplied must not panic. In a stream of events, the
// panic makes the pages of all other viewers say that they cannot be rendered.
func TestHugePageNumberIsRefused(t *testing.T) {
	v, err := viewOfEvents("page=150000000000000000")
	if err != nil {
		return // refused
	}
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("page %d: %v", v.page, p)
		}
	}()
	listOf(v, overview.Document{Sets: []overview.Set{{Namespace: "shop", Name: "web"}}}, time.Now())
}

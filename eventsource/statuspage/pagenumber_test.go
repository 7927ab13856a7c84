package statuspage

import (
	"strconv"
	"testing"
	"time"

	"drydock.dev/shared/overview"
)

// TestHugePageNumberIsRefused: rendering multiplies the number of the page. An overflow would panic in a stream of events, and no viewer
// could be shown a page.
func TestHugePageNumberIsRefused(t *testing.T) {
	for _, page := range []string{strconv.Itoa(maxPage + 1), "150000000000000000"} {
		if v, err := viewOfEvents("page=" + page); err == nil {
			t.Errorf("page %s is accepted: %+v", page, v)
		}
	}
	v, err := viewOfEvents("page=" + strconv.Itoa(maxPage))
	if err != nil {
		t.Fatalf("the last page is refused: %v", err)
	}
	list := listOf(v, overview.Document{Sets: []overview.Set{{Namespace: "shop", Name: "web"}}}, time.Now())
	if len(list.Rows) != 0 {
		t.Errorf("page %d has rows: %+v", maxPage, list.Rows)
	}
}

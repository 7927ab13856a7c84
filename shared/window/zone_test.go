package window

import (
	"fmt"
	"testing"
	"time"
)

// TestZonesAreCached, and unknown names do not make the cache grow.
func TestZonesAreCached(t *testing.T) {
	c := zoneCache{zones: map[string]*time.Location{}}
	first, err := c.load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := c.load("Europe/Berlin"); err != nil || second != first {
		t.Errorf("%v, %v", second, err)
	}
	for i := range 10 {
		if _, err := c.load(fmt.Sprintf("Nowhere/%d", i)); err == nil {
			t.Error("an unknown zone is accepted")
		}
	}
	if _, err := c.load("Local"); err == nil || len(c.zones) != 1 {
		t.Errorf("%v, %d zones", err, len(c.zones))
	}
	for i := range 2 * maxZones {
		if len(c.zones) < maxZones {
			c.zones[fmt.Sprint(i)] = first
		}
	}
	if zone, err := c.load("Asia/Tokyo"); err != nil || zone.String() != "Asia/Tokyo" || len(c.zones) != maxZones {
		t.Errorf("%v, %v, %d zones", zone, err, len(c.zones))
	}
}

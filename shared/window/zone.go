package window

import (
	"fmt"
	"sync"
	"time"
)

// maxZones limits the cached zones. There are about six hundred names.
const maxZones = 1000

// zoneCache caches time zones. Loading one takes 20 microseconds, and a sweep needs the zones of every set.
type zoneCache struct {
	mu    sync.Mutex
	zones map[string]*time.Location
}

var zones = zoneCache{zones: map[string]*time.Location{}}

// load returns the zone with the IANA name. Unknown names are not cached, because users can write any number of them.
func (c *zoneCache) load(name string) (*time.Location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if zone, ok := c.zones[name]; ok {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // the zone of the machine must not matter
		return nil, fmt.Errorf("time zone %q is unknown", name)
	}
	if len(c.zones) < maxZones {
		c.zones[name] = zone
	}
	return zone, nil
}

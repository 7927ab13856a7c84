package idle

import (
	"fmt"
	"sync"
	"time"
)

// mostZones bounds the zones that are kept: there are some six hundred names.
const mostZones = 1000

// zoneCache keeps time zones that were read: each takes 20 microseconds, and a sweep reads those of every set.
type zoneCache struct {
	mu    sync.Mutex
	zones map[string]*time.Location
}

var zones = zoneCache{zones: map[string]*time.Location{}}

// load returns the zone of the IANA name. An unknown name is not kept, since people can write any.
func (c *zoneCache) load(name string) (*time.Location, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if zone, ok := c.zones[name]; ok {
		return zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // the machine's own zone is nobody's business
		return nil, fmt.Errorf("time zone %q is unknown", name)
	}
	if len(c.zones) < mostZones {
		c.zones[name] = zone
	}
	return zone, nil
}

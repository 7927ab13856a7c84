package main

import (
	"testing"
	"time"
)

func TestDowntimeOfReplicasAndOfTheSet(t *testing.T) {
	type observation struct {
		at   int
		name string
		up   bool
	}
	for name, test := range map[string]struct {
		observations []observation
		of           map[string]int
		all          int
	}{
		"always up": {[]observation{{0, "a", true}, {5, "a", true}}, map[string]int{"a": 0}, 0},
		"down once": {[]observation{{0, "a", true}, {2, "a", false}, {3, "a", false}, {9, "a", true}}, map[string]int{"a": 7}, 7},
		"two downtimes are added": {
			[]observation{{0, "a", true}, {1, "a", false}, {2, "a", true}, {5, "a", false}, {8, "a", true}}, map[string]int{"a": 4}, 4},
		"one after the other: the set always serves": {
			[]observation{{0, "a", true}, {0, "b", true}, {1, "a", false}, {3, "a", true}, {4, "b", false}, {9, "b", true}},
			map[string]int{"a": 2, "b": 5}, 0},
		"overlapping: the set is down while both are down": {
			[]observation{{0, "a", true}, {0, "b", true}, {1, "b", false}, {3, "a", false}, {10, "a", true}, {12, "b", true}},
			map[string]int{"a": 7, "b": 11}, 7},
		"down at the first observation: counts from then": {[]observation{{4, "a", false}, {6, "a", true}}, map[string]int{"a": 2}, 2},
	} {
		d, start := newDowntime(), time.Now()
		for _, s := range test.observations {
			d.observe(s.name, s.up, start.Add(time.Duration(s.at)*time.Second))
		}
		for replica, want := range test.of {
			if got := d.ofReplica(replica); got != time.Duration(want)*time.Second {
				t.Errorf("%s: %s was down for %s, want %d s", name, replica, got, want)
			}
		}
		if got := d.ofSet(); got != time.Duration(test.all)*time.Second {
			t.Errorf("%s: all were down for %s, want %d s", name, got, test.all)
		}
	}
}

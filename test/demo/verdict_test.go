package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
	"drydock.dev/test/golden"
)

func goodOutcome() outcome {
	o := outcome{
		to: resource.MustParse("160Mi"), template: "160Mi", specReplicas: replicas,
		status: &api.Resize{Header: api.Header{Phase: api.Succeeded}, Strategy: api.StrategyRolling}, answered: 100,
	}
	for i := range replicas {
		sum := strings.Repeat(string(rune('a'+i)), 64)
		o.before = append(o.before, measurement{sum, 3000, space{62 << 20, 54 << 20}})
		o.after = append(o.after, measurement{sum, 3000, space{156 << 20, 54 << 20}})
		o.status.Members = append(o.status.Members, api.Member{Ordinal: i, Claims: []api.Move{{OldVolume: "old-" + replica(i)}}})
		o.retained = append(o.retained, volume("old-"+replica(i), "Released", "Retain"))
	}
	return o
}

func TestVerdictNamesEachFailedCheck(t *testing.T) {
	f := golden.Open(t)
	cases := map[string]func(*outcome){
		"all checks pass":                          func(*outcome) {},
		"the size is written in another unit":      func(o *outcome) { o.template = "163840Ki" },
		"the operation was refused":                func(o *outcome) { o.status.Phase, o.status.Reason = api.Refused, api.ShrinkRefused },
		"a byte differs":                           func(o *outcome) { o.after[1].checksum = strings.Repeat("f", 64) },
		"a replica was not measured":               func(o *outcome) { o.after = o.after[:2] },
		"a volume has not grown":                   func(o *outcome) { o.after[0].space.total = 62 << 20 },
		"a volume has grown, but too little":       func(o *outcome) { o.after[0].space.total = 100 << 20 },
		"a replica is missing":                     func(o *outcome) { o.notReady = "2 of 3 replicas are ready" },
		"the spec has fewer replicas":              func(o *outcome) { o.specReplicas = 0 },
		"the template has the old size":            func(o *outcome) { o.template = "64Mi" },
		"an old volume is not retained":            func(o *outcome) { o.retained = o.retained[1:] },
		"a call failed":                            func(o *outcome) { o.failed = 2 },
		"calls fail while all members are stopped": func(o *outcome) { o.failed, o.status.Strategy = 2, api.StrategyWhole },
		"no call was answered":                     func(o *outcome) { o.answered = 0 },
		"a leftover":                               func(o *outcome) { o.leftovers = []string{"jobs x was made"} },
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		o := goodOutcome()
		cases[name](&o)
		f.Entry(t, name, strings.Join(o.problems(), "\n"))
	}
}

func TestResultTableOfAnInterruptedRunMarksMissingData(t *testing.T) {
	o := goodOutcome()
	o.after = o.after[:1]
	rows := o.rows(newDowntime())
	if len(rows) != 1+replicas || rows[1][3] != "✓" || rows[2][3] != "✗" || rows[2][5] != "?" {
		t.Errorf("got %q", rows)
	}
}

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

func TestCallsAreCountedFromTheClientsLog(t *testing.T) {
	var reported []int64
	c := &calls{screen: show.NewScreenTo(&bytes.Buffer{}), fail: func(n int64) { reported = append(reported, n) }}
	c.readLines(strings.NewReader("25 0\nwget: bad address\n23 2\n25 0\n"))
	if answered, failed := c.counts(); answered != 73 || failed != 2 {
		t.Errorf("got %d answered, %d failed", answered, failed)
	}
	if len(reported) != 1 || reported[0] != 2 {
		t.Errorf("reported %v", reported)
	}
}

// A mover that still copies must not move the bar back after the record shows the copy as complete.
func TestProgressFollowsTheMoverThenTheRecord(t *testing.T) {
	p := newProgress(show.NewScreenTo(&bytes.Buffer{}))
	lines := func(text string) { p.readLines(strings.NewReader(text), "web-1") }
	lines(`{"phase":"copy","bytesDone":1,"bytesTotal":10,"pass":1}` + "\nnothing\n" + `{"phase":"wait","bytesDone":0,"bytesTotal":0,"pass":1}`)
	if bar := p.bars["web-1"]; bar.Note != "pass 1: copy" || bar.Done != 1 || bar.Total != 10 {
		t.Errorf("%+v", bar)
	}
	lines(`{"phase":"verify","bytesDone":5,"bytesTotal":10}`)
	if bar := p.bars["web-1"]; bar.Note != "final pass: verify" {
		t.Errorf("%+v", bar)
	}
	record := &api.Resize{Members: []api.Member{{Ordinal: 1, Phase: api.MemberSwapping, Claims: []api.Move{{BytesTotal: 12}}}}}
	p.applyRecord(record)
	lines(`{"phase":"copy","bytesDone":1,"bytesTotal":10}`)
	if bar := p.bars["web-1"]; bar.Note != "swapping" || bar.Done != 12 || bar.Total != 12 {
		t.Errorf("%+v", bar)
	}
	record.Members[0].Phase = api.MemberCopying // copied again
	p.applyRecord(record)
	lines(`{"phase":"copy","bytesDone":2,"bytesTotal":10,"pass":1}`)
	if bar := p.bars["web-1"]; bar.Done != 2 {
		t.Errorf("%+v", bar)
	}
}

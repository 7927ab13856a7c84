package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
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

package main

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

func goodOutcome() outcome {
	o := outcome{
		to: resource.MustParse("160Mi"), template: "160Mi", wanted: replicas,
		status: &api.Resize{Header: api.Header{Phase: api.Succeeded}, Strategy: api.StrategyRolling}, answered: 100,
	}
	for i := range replicas {
		sum := strings.Repeat(string(rune('a'+i)), 64)
		o.before = append(o.before, measure{sum, 3000, space{62 << 20, 54 << 20}})
		o.after = append(o.after, measure{sum, 3000, space{156 << 20, 54 << 20}})
		o.status.Members = append(o.status.Members, api.Member{Ordinal: i, Claims: []api.Move{{OldVolume: "old-" + replica(i)}}})
		o.kept = append(o.kept, volume("old-"+replica(i), "Released", "Retain"))
	}
	return o
}

func TestVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*outcome)
		want   string // empty for no problem
	}{
		"everything is as it should be":      {func(*outcome) {}, ""},
		"the size is written otherwise":      {func(o *outcome) { o.template = "163840Ki" }, ""},
		"the operation was refused":          {func(o *outcome) { o.status.Phase, o.status.Reason = api.Refused, api.ShrinkRefused }, "the operation ended with Refused: ShrinkRefused"},
		"a byte differs":                     {func(o *outcome) { o.after[1].checksum = strings.Repeat("f", 64) }, "the data of web-1 is not the same"},
		"a replica was not looked at":        {func(o *outcome) { o.after = o.after[:2] }, "the data of web-2 was not looked at"},
		"a volume is as small as before":     {func(o *outcome) { o.after[0].space.total = 62 << 20 }, "the volume of web-0 has not grown"},
		"a volume has grown, but too little": {func(o *outcome) { o.after[0].space.total = 100 << 20 }, "the volume of web-0 has not grown to 160Mi"},
		"a replica is missing":               {func(o *outcome) { o.notReady = "2 of 3 replicas are ready" }, "2 of 3 replicas are ready"},
		"fewer replicas are asked for":       {func(o *outcome) { o.wanted = 0 }, "the StatefulSet asks for 0 replicas"},
		"the template is the old one":        {func(o *outcome) { o.template = "64Mi" }, "the StatefulSet's template asks for 64Mi, not for 160Mi"},
		"an old volume is not kept":          {func(o *outcome) { o.kept = o.kept[1:] }, "the old volumes are not what is kept"},
		"a call failed":                      {func(o *outcome) { o.failed = 2 }, "2 of 102 calls of the client failed"},
		"calls fail while all members stop":  {func(o *outcome) { o.failed, o.status.Strategy = 2, api.StrategyWhole }, ""},
		"no call was answered":               {func(o *outcome) { o.answered = 0 }, "no call of the client was answered"},
		"something is left behind":           {func(o *outcome) { o.wrong = []string{"jobs x was made"} }, "left behind: jobs x was made"},
	} {
		o := goodOutcome()
		test.change(&o)
		if got := strings.Join(o.problems(), "\n"); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestRowsOfASceneThatBrokeOff(t *testing.T) {
	o := goodOutcome()
	o.after = o.after[:1]
	rows := o.rows(newDowntime())
	if len(rows) != 1+replicas || rows[1][3] != "✓" || rows[2][3] != "✗" || rows[2][5] != "?" {
		t.Errorf("got %q", rows)
	}
}

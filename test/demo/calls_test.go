package main

import (
	"bytes"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
)

func TestCallsAreCountedByWhatTheClientPrints(t *testing.T) {
	var told []int64
	c := &calls{screen: show.NewScreenTo(&bytes.Buffer{}), fail: func(n int64) { told = append(told, n) }}
	c.readLines(strings.NewReader("25 0\nwget: bad address\n23 2\n25 0\n"))
	if answered, failed := c.counts(); answered != 73 || failed != 2 {
		t.Errorf("%d were answered, %d failed", answered, failed)
	}
	if len(told) != 1 || told[0] != 2 {
		t.Errorf("told of %v", told)
	}
}

// TestProgressOfAMember: by what its mover prints, then by the record, of which the mover knows less.
func TestProgressOfAMember(t *testing.T) {
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
	p.settle(record)
	lines(`{"phase":"copy","bytesDone":1,"bytesTotal":10}`)
	if bar := p.bars["web-1"]; bar.Note != "swapping" || bar.Done != 12 || bar.Total != 12 {
		t.Errorf("%+v", bar)
	}
	record.Members[0].Phase = api.MemberCopying // once more
	p.settle(record)
	lines(`{"phase":"copy","bytesDone":2,"bytesTotal":10,"pass":1}`)
	if bar := p.bars["web-1"]; bar.Done != 2 {
		t.Errorf("%+v", bar)
	}
}

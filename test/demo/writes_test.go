package main

import (
	"bytes"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
)

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

package moverreport

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// Whatever the report contains, it fits the termination log and can be parsed.
func TestMemberReportFitsTerminationLog(t *testing.T) {
	long := strconv.Quote(strings.Repeat("\xff\n", 2000))
	many := make([]ClaimReport, 60)
	for i := range many {
		many[i] = ClaimReport{Name: fmt.Sprintf("data-%d", i), Bytes: 1 << 40, Files: 1 << 30, Verified: true}
	}
	warnings := strings.Fields(strings.Repeat("warning ", 3000))
	signal := &Signal{Hold: strings.Repeat("u", 36), Attempt: 1}
	for name, r := range map[string]MemberReport{
		"short":         {Message: "done", Signal: signal, Claims: []ClaimReport{{Name: "data", Verified: true}}},
		"long message":  {Message: strings.Repeat("ü", 5000) + "what to do", Signal: signal},
		"many warnings": {Message: "m", Claims: []ClaimReport{{Name: "a", Warnings: warnings}, {Name: "b", Warnings: []string{"one"}}}},
		"many problems": {Message: "m", Claims: []ClaimReport{{Name: "a", Problems: []string{long, long, long}}}},
		"many claims":   {Message: "m", Signal: signal, Claims: many},
		"all of it": {Message: long + long, Signal: signal,
			Claims: append([]ClaimReport{{Name: "x", Problems: []string{long}, Warnings: []string{long}}}, many...)},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(r)
			b := r.Encode(TerminationLogLimit)
			back, err := ParseMember(b)
			if err != nil || len(b) > TerminationLogLimit || bytes.Contains(b, []byte("\n")) {
				t.Fatalf("%d bytes, %v: %.200s", len(b), err, b)
			}
			if back.Message == "" || !reflect.DeepEqual(back.Signal, r.Signal) || back.ClaimsOmitted != len(r.Claims)-len(back.Claims) {
				t.Errorf("%+v", back)
			}
			for i, c := range back.Claims {
				had := r.Claims[i]
				if lost := len(had.Problems) + len(had.Warnings) - len(c.Problems) - len(c.Warnings); lost != c.Omitted {
					t.Errorf("%s: %d omitted, the report has %d", c.Name, lost, c.Omitted)
				}
			}
			if fmt.Sprint(r) != before {
				t.Error("Encode changed the report")
			}
		})
	}
	b := (MemberReport{Message: strings.Repeat("x", 9000) + "what to do"}).Encode(TerminationLogLimit)
	if !bytes.Contains(b, []byte("what to do")) {
		t.Error("the advice at the end is missing")
	}
}

func TestWarningsOfOneClaimLeaveRoomForOthers(t *testing.T) {
	many := strings.Fields(strings.Repeat("warning ", 3000))
	r := MemberReport{Message: "m", Claims: []ClaimReport{{Name: "a", Warnings: []string{"the only one"}}, {Name: "b", Warnings: many}}}
	back, err := ParseMember(r.Encode(TerminationLogLimit))
	if err != nil || len(back.Claims[0].Warnings) != 1 {
		t.Errorf("%v %+v", err, back.Claims[0])
	}
}

func TestArgumentsOfOrder(t *testing.T) {
	o := Order{Token: "op-1", Member: "uid-1", MaxStop: 60e9, Claims: []Claim{{Name: "data", Margin: 10}, {Name: "raw", Device: true}}}
	const common = "--report=/dev/termination-log --token=op-1 --member=uid-1 --max-stop=1m0s " +
		"--claim=data,margin=10 --claim=raw,device"
	if got := strings.Join(o.FirstArgs(), " "); got != "copy first "+common {
		t.Error(got)
	}
	if got := strings.Join(o.FinalArgs(), " "); got != "copy final "+common+" --lease=2m0s" {
		t.Error(got)
	}
	o.Bandwidth, o.Lease, o.Refill = 5e6, 30e9, true
	got := strings.Join(o.FinalArgs(), " ")
	if got := strings.Join(o.PinArgs(), " "); got != "copy pin --lease=30s" {
		t.Error(got)
	}
	if !strings.Contains(got, " --bandwidth=5000000 --refill ") || !strings.HasSuffix(got, " --lease=30s") {
		t.Error(got)
	}
}

func TestClaimFlags(t *testing.T) {
	for _, c := range []Claim{{Name: "data"}, {Name: "a.b-c", Device: true}, {Name: "data", Margin: 99}} {
		if got, err := ParseClaim(c.String()); err != nil || got != c {
			t.Errorf("%v: %v %v", c, got, err)
		}
	}
	for _, text := range []string{"", ",device", "..", ".", "../x", "a/b", "a\x00b", "data,margin=0", "data,margin=100", "data,margin=x",
		"data,Device", "raw,device,margin=5"} {
		if c, err := ParseClaim(text); err == nil {
			t.Errorf("%q was parsed as %v", text, c)
		}
	}
}

// TestTruncatedReportKeepsItsResult: the kubelet may truncate a message anywhere. From the first claim on, the report is readable.
func TestTruncatedReportKeepsItsResult(t *testing.T) {
	r := MemberReport{Stage: FinalContainer, Result: ResultCopied, Message: `a "claims":[ in a name`}
	for _, name := range []string{"data", "logs", "wal"} {
		r.Claims = append(r.Claims, ClaimReport{Name: name, Bytes: 7, Warnings: []string{"the file },{ has no owner"}, Verified: true})
	}
	text := r.Encode(TerminationLogLimit)
	first := bytes.Index(text, []byte(`"claims":[{`)) + len(`"claims":[`)
	for end := first; end <= len(text); end++ {
		back, err := ParseMember(text[:end])
		if err != nil || back.Result != r.Result || back.Message != r.Message {
			t.Fatalf("%s: %+v, %v", text[:end], back, err)
		}
		for _, c := range back.Claims {
			if !c.Verified {
				t.Errorf("%s: claim %+v", text[:end], c)
			}
		}
	}
	if back, err := ParseMember(text[:first-1]); err == nil {
		t.Errorf("%s: %+v", text[:first-1], back)
	}
}

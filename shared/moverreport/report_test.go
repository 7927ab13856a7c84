package moverreport

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReportFitsTerminationLog: an encoded report is one line of JSON and fits the termination log, even if its texts are too long. The
// end of a long message stays, because it has the remedy.
func TestReportFitsTerminationLog(t *testing.T) {
	long := strconv.Quote(strings.Repeat("\xff\n", 2000))
	for name, r := range map[string]Report{
		"short":         {Message: "done"},
		"long message":  {Code: CodeIO, Message: strings.Repeat("ü", 5000) + "what to do"},
		"many problems": {Code: CodeNotFaithful, Message: "m", Problems: []string{long, long, long, long, long}},
		"many warnings": {Message: "m", Warnings: strings.Fields(strings.Repeat("warning ", 3000))},
		"all of it":     {Message: long + long, Problems: []string{long, long}, Warnings: []string{long, long}},
		"quotes":        {Message: strings.Repeat(`"\`, 4000)},
	} {
		t.Run(name, func(t *testing.T) {
			b := r.Encode(TerminationLogLimit)
			var back Report
			if err := json.Unmarshal(b, &back); err != nil || len(b) > TerminationLogLimit || bytes.Contains(b, []byte("\n")) {
				t.Fatalf("%d bytes, %v: %.200s", len(b), err, b)
			}
			if back.Code != r.Code || back.Message == "" {
				t.Errorf("%+v", back)
			}
			if lost := len(r.Problems) + len(r.Warnings) - len(back.Problems) - len(back.Warnings); lost != back.Omitted {
				t.Errorf("%d omitted, the report has %d", lost, back.Omitted)
			}
		})
	}
	if b := (Report{Message: strings.Repeat("x", 9000) + "what to do"}).Encode(TerminationLogLimit); !bytes.Contains(b, []byte("what to do")) {
		t.Error("the advice at the end is missing")
	}
}

// line is one line of a mover's log: its progress or, at the end, its report. The fields of the other kind are zero.
type line struct {
	Progress
	Report
}

func parseLine(text []byte) (line, error) {
	var l line
	err := json.Unmarshal(text, &l)
	return l, err
}

func TestLineHoldsProgressOrReport(t *testing.T) {
	for _, want := range []line{
		{Progress: Progress{Phase: PhaseCopy, BytesDone: 1, BytesTotal: 2, FilesDone: 3, FilesTotal: 4}},
		{Report: Report{Result: "failed", Code: CodeNoSpace, Reason: ReasonNoSpace, Message: "full", Bytes: 5, Warnings: []string{"w"},
			Verified: true}},
	} {
		text := want.Report.Encode(TerminationLogLimit)
		if want.Phase != "" {
			text, _ = json.Marshal(want.Progress)
		}
		if got, err := parseLine(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	if _, err := parseLine([]byte("panic: no report")); err == nil {
		t.Error("a line that is not JSON was parsed")
	}
}

func TestExitCodes(t *testing.T) {
	for code, retry := range map[int]bool{0: false, 1: true, 2: false, 3: true, 4: false, 5: true, 6: false, 7: false, 8: false, 9: false,
		130: true, 143: true, 137: true, 139: true} {
		if Retryable(code) != retry || Explain(code) == "" {
			t.Errorf("%d: retry %v, %q", code, Retryable(code), Explain(code))
		}
	}
	for i, code := range Codes()[1:] {
		if Codes()[i] >= code {
			t.Error("the table is not in order")
		}
	}
}

func TestFinalCodesAreNotRetryable(t *testing.T) {
	if got := FinalCodes(); !slices.Equal(got, []int32{CodeUsage, CodeNoSpace, CodeNotFaithful, CodeTargetNotEmpty, CodeNotConverged,
		CodeLeaseLost}) {
		t.Error(got)
	}
}

package moverreport

import (
	"fmt"
	"strings"
	"testing"
)

// annotationsFile returns annotations as the kubelet writes them: sorted, quoted, without a line break at the end.
func annotationsFile(pairs ...string) string {
	var lines []string
	for i := 0; i < len(pairs); i += 2 {
		lines = append(lines, fmt.Sprintf("%v=%q", pairs[i], pairs[i+1]))
	}
	return strings.Join(lines, "\n")
}

func TestInstructionsAreReadFromAnnotations(t *testing.T) {
	signal := Signal{Hold: "6f1c2d2e-uid", Attempt: 3}
	for name, c := range map[string]struct {
		file  string
		want  Instructions
		fails bool
	}{
		"an empty file": {file: ""},
		"others only":   {file: annotationsFile("a/b", "x", "drydock.dev/operation", `{"id":"op"}`)},
		"a lease":       {file: annotationsFile(LeaseAnnotation, "2026-11-22T10:00:00Z"), want: Instructions{Lease: "2026-11-22T10:00:00Z"}},
		"both": {file: annotationsFile("a", "b", SignalAnnotation, signal.Encode(), LeaseAnnotation, "7", "z", "y"),
			want: Instructions{Signal: &signal, Lease: "7"}},
		"a line break at the end": {file: annotationsFile(LeaseAnnotation, "7") + "\n", want: Instructions{Lease: "7"}},
		"quotes and escapes":      {file: annotationsFile(LeaseAnnotation, "\"a\\\"\n\x01ü="), want: Instructions{Lease: "\"a\\\"\n\x01ü="}},
		"another annotation holds a forged line": {file: annotationsFile("evil", "x\n"+SignalAnnotation+`="{\"hold\":\"h\"}"`),
			want: Instructions{}},
		"a key that only begins so": {file: annotationsFile(SignalAnnotation+"-2", signal.Encode(), LeaseAnnotation+".x", "1")},
		"a torn signal keeps the lease": {file: annotationsFile(LeaseAnnotation, "7", SignalAnnotation, signal.Encode())[:70],
			want: Instructions{Lease: "7"}, fails: true},
		"an unquoted value":    {file: LeaseAnnotation + "=7", fails: true},
		"a signal of no JSON":  {file: annotationsFile(SignalAnnotation, "now"), fails: true},
		"an empty signal":      {file: annotationsFile(SignalAnnotation, ""), fails: true},
		"a signal for no hold": {file: annotationsFile(SignalAnnotation, `{"attempt":1}`), fails: true},
		"a signal of a list":   {file: annotationsFile(SignalAnnotation, `[]`), fails: true},
		"a huge signal":        {file: annotationsFile(SignalAnnotation, Signal{Hold: strings.Repeat("x", 100_000)}.Encode()), fails: true},
		"no text":              {file: "\x00\xff\xfe=\n==\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseInstructions([]byte(c.file))
			if (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			if got.Lease != c.want.Lease || (got.Signal == nil) != (c.want.Signal == nil) || got.Signal != nil && *got.Signal != *c.want.Signal {
				t.Errorf("%+v %+v", got, got.Signal)
			}
		})
	}
}

// Wherever a file is cut off, it yields no signal and no lease that it did not contain.
func TestTornAnnotationsYieldNothingWrong(t *testing.T) {
	signal := Signal{Hold: `quote" and \ back`, Attempt: 12}
	whole := annotationsFile("a", `x"`, SignalAnnotation, signal.Encode(), LeaseAnnotation, `17"\`)
	for i := range whole {
		got, _ := ParseInstructions([]byte(whole[:i]))
		if got.Signal != nil && *got.Signal != signal || got.Lease != "" {
			t.Errorf("%q: %+v %v", whole[:i], got, got.Signal)
		}
	}
}

func TestSignalsRoundTrip(t *testing.T) {
	for _, s := range []Signal{{Hold: "uid", Attempt: 1}, {Hold: "uid"}, {Hold: "<&>\u2028\"", Attempt: -1}} {
		if got, err := ParseSignal(s.Encode()); err != nil || got != s {
			t.Errorf("%+v: %+v %v", s, got, err)
		}
	}
}

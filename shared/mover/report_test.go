package mover

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whatever is in it, the report fits the termination log and is JSON.
func TestReportFits(t *testing.T) {
	long := quote(strings.Repeat("\xff\n", 2000))
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
				t.Errorf("%d omitted, it says %d", lost, back.Omitted)
			}
		})
	}
	if b := (Report{Message: strings.Repeat("x", 9000) + "what to do"}).Encode(TerminationLogLimit); !bytes.Contains(b, []byte("what to do")) {
		t.Error("the advice at the end is lost")
	}
}

func TestReportOverwritesTheTerminationLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	write(t, path, strings.Repeat("x", 9000))
	r := NewReport(Result{Files: 3, Digest: "d"}, nil, 1500*time.Millisecond)
	must(t, r.WriteFile(path))
	var back Report
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, json.Unmarshal(b, &back))
	if back.Result != "copied" || back.Reason != ReasonCopied || back.Seconds != 1.5 || back.Files != 3 {
		t.Errorf("%s", b)
	}
}

func TestExitCodes(t *testing.T) {
	for code, retry := range map[int]bool{0: false, 1: true, 2: false, 3: true, 4: false, 5: true, 6: false, 130: true, 143: true, 137: true, 139: true} {
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

func TestKindOf(t *testing.T) {
	in := func(s side, err error) error { return &fault{s, "doing", "f", err} }
	for name, c := range map[string]struct {
		err  error
		want kind
	}{
		"a source that vanished was changed":         {in(source, unix.ENOENT), kindChanged},
		"a target that vanished is trouble":          {in(target, unix.ENOENT), kindIO},
		"rights are missing":                         {in(source, unix.EACCES), kindDenied},
		"a target that knows no attributes":          {in(target, unix.EOPNOTSUPP), kindDenied},
		"a full target":                              {in(target, unix.ENOSPC), kindNoSpace},
		"a used up quota":                            {in(target, unix.EDQUOT), kindNoSpace},
		"a broken disk":                              {in(source, unix.EIO), kindIO},
		"a read-only target":                         {in(target, unix.EROFS), kindIO},
		"a cause in a fault is still an end":         {in(source, &Interruption{unix.SIGTERM}), kindStopped},
		"a missing entry in verification is a find":  {in(target, ifGone(target, unix.ENOENT)), kindDiffers},
		"in the source it was changed":               {in(source, ifGone(source, unix.ENOENT)), kindChanged},
		"attributes too large for this file system":  {in(target, &xattrError{"user.a", errXattrTooLarge}), kindDenied},
		"attributes that vanish were changed":        {in(source, &xattrError{"user.a", unix.ENODATA}), kindChanged},
		"a name too long for this file system":       {in(target, unix.ENAMETOOLONG), kindDenied},
		"more hard links than this file system has":  {in(target, unix.EMLINK), kindDenied},
		"a file too large for this file system":      {in(target, unix.EFBIG), kindDenied},
		"the network's file system lost its handles": {in(source, unix.ESTALE), kindIO},
	} {
		if got := kindOf(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for _, c := range [][4]string{
		{"a/b/c", "9", "a/b/c", ""}, {"a/b/c", "3", "a/b", "c"}, {"a/b/c", "2", "a", "b/c"},
		{"abc/d", "2", "abc", "d"}, {"a/b", "0", "a", "b"}, {"abc", "0", "abc", ""},
	} {
		piece, rest := splitPath(c[0], int(c[1][0]-'0'))
		if piece != c[2] || rest != c[3] {
			t.Errorf("%q in %s: %q %q", c[0], c[1], piece, rest)
		}
	}
}

// Lines come at each phase change, never twice the same, and in the end everything is done.
func TestProgress(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, n := range []string{"a", "b"} {
		write(t, filepath.Join(src, n), strings.Repeat("x", 100_000))
	}
	must(t, os.Link(src+"/a", src+"/a2"))
	must(t, os.Truncate(src+"/b", 50_000_000))
	var lines []Progress
	copyTree(t, Options{Source: src, Target: dst, Progress: func(p Progress) { lines = append(lines, p) }})
	var phases []Phase
	for _, p := range lines {
		phases = append(phases, p.Phase)
	}
	if len(lines) != 4 || phases[0] != PhaseScan || phases[1] != PhaseCopy || phases[2] != PhaseSync || phases[3] != PhaseVerify {
		t.Fatal(phases)
	}
	atSync := lines[2]
	if atSync.FilesDone != 3 || atSync.FilesTotal != 3 || atSync.BytesDone != atSync.BytesTotal || atSync.BytesTotal > 210_000 || atSync.BytesTotal < 200_000 {
		t.Errorf("%+v", atSync)
	}
}

func TestProgressInterval(t *testing.T) {
	told := make(chan Progress)
	m := newMeter(func(p Progress) { told <- p }, time.Millisecond)
	go m.enter(PhaseCopy)
	<-told
	m.files.Add(1) // seen at the next tick, and nothing more until something changes
	if p := <-told; p.Phase != PhaseCopy || p.FilesDone != 1 {
		t.Errorf("%+v", p)
	}
	m.close()
	select {
	case p := <-told:
		t.Errorf("told again: %+v", p)
	default:
	}
}

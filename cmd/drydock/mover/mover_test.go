//go:build linux

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

func TestReportOfASuccessfulCopy(t *testing.T) {
	r := NewReport(Result{Files: 3, Verified: true, Warnings: []string{"w"}}, nil, 1500*time.Millisecond)
	if r.Result != "copied" || r.Reason != moverreport.ReasonCopied || r.Seconds != 1.5 || r.Files != 3 || len(r.Warnings) != 1 ||
		r.Digest != moverreport.Verified {
		t.Errorf("%+v", r)
	}
}

func TestKindOf(t *testing.T) {
	in := func(s side, err error) error { return newFault(s, "doing", "f", err) }
	for name, c := range map[string]struct {
		err  error
		want kind
	}{
		"a name vanished from the source":            {in(source, unix.ENOENT), kindChanged},
		"a name vanished from the target":            {in(target, unix.ENOENT), kindIO},
		"missing rights":                             {in(source, unix.EACCES), kindDenied},
		"a target without attributes":                {in(target, unix.EOPNOTSUPP), kindDenied},
		"a full target":                              {in(target, unix.ENOSPC), kindNoSpace},
		"a used up quota":                            {in(target, unix.EDQUOT), kindNoSpace},
		"a broken disk":                              {in(source, unix.EIO), kindIO},
		"a read-only target":                         {in(target, unix.EROFS), kindIO},
		"a fault caused by a signal":                 {in(source, &Interruption{unix.SIGTERM}), kindStopped},
		"verification misses an entry of the target": {in(target, ifGone(target, unix.ENOENT)), kindDiffers},
		"verification misses an entry of the source": {in(source, ifGone(source, unix.ENOENT)), kindChanged},
		"attributes too large for this file system":  {in(target, &xattrError{"user.a", errXattrTooLarge}), kindDenied},
		"attributes that vanished from the source":   {in(source, &xattrError{"user.a", unix.ENODATA}), kindChanged},
		"a name too long for this file system":       {in(target, unix.ENAMETOOLONG), kindDenied},
		"more hard links than this file system has":  {in(target, unix.EMLINK), kindDenied},
		"a file too large for this file system":      {in(target, unix.EFBIG), kindDenied},
		"a network file system lost its handles":     {in(source, unix.ESTALE), kindIO},
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

// Progress is reported at each phase change, never twice the same, and at the end everything is done.
func TestProgressAtEachPhase(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, n := range []string{"a", "b"} {
		write(t, filepath.Join(src, n), strings.Repeat("x", 100_000))
	}
	must(t, os.Link(src+"/a", src+"/a2"))
	must(t, os.Truncate(src+"/b", 50_000_000))
	var lines []moverreport.Progress
	copyTree(t, Options{Source: src, Target: dst, Progress: func(p moverreport.Progress) { lines = append(lines, p) }})
	var phases []moverreport.Phase
	for _, p := range lines {
		phases = append(phases, p.Phase)
	}
	if len(lines) != 4 || phases[0] != moverreport.PhaseScan || phases[1] != moverreport.PhaseCopy ||
		phases[2] != moverreport.PhaseSync || phases[3] != moverreport.PhaseVerify {
		t.Fatal(phases)
	}
	atSync := lines[2]
	if atSync.FilesDone != 3 || atSync.FilesTotal != 3 ||
		atSync.BytesDone != atSync.BytesTotal || atSync.BytesTotal > 210_000 || atSync.BytesTotal < 200_000 {
		t.Errorf("%+v", atSync)
	}
}

func TestProgressInterval(t *testing.T) {
	reported := make(chan moverreport.Progress)
	m := newMeter(func(p moverreport.Progress) { reported <- p }, time.Millisecond)
	go m.enter(moverreport.PhaseCopy)
	<-reported
	m.files.Add(1) // seen at the next tick, and nothing more until something changes
	if p := <-reported; p.Phase != moverreport.PhaseCopy || p.FilesDone != 1 {
		t.Errorf("%+v", p)
	}
	m.close()
	select {
	case p := <-reported:
		t.Errorf("the same progress was reported again: %+v", p)
	default:
	}
}

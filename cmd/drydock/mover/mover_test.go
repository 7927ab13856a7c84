//go:build linux

package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/shared/moverreport"
)

func TestReportOfASuccessfulCopy(t *testing.T) {
	r := NewReport(Result{Files: 3, Verified: true, Warnings: []string{"w"}}, nil, 1500*time.Millisecond)
	if r.Result != "copied" || r.Reason != moverreport.ReasonCopied || r.Seconds != 1.5 || r.Files != 3 || len(r.Warnings) != 1 ||
		!r.Verified {
		t.Errorf("%+v", r)
	}
}

func TestKindOf(t *testing.T) {
	in := func(s fault.Side, err error) error { return fault.New(s, "doing", "f", err) }
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"a name vanished from the source":            {in(fault.Source, unix.ENOENT), fault.KindChanged},
		"a name vanished from the target":            {in(fault.Target, unix.ENOENT), fault.KindIO},
		"missing rights":                             {in(fault.Source, unix.EACCES), fault.KindDenied},
		"a target without attributes":                {in(fault.Target, unix.EOPNOTSUPP), fault.KindDenied},
		"a full target":                              {in(fault.Target, unix.ENOSPC), fault.KindNoSpace},
		"a used up quota":                            {in(fault.Target, unix.EDQUOT), fault.KindNoSpace},
		"a broken disk":                              {in(fault.Source, unix.EIO), fault.KindIO},
		"a read-only target":                         {in(fault.Target, unix.EROFS), fault.KindIO},
		"a fault caused by a signal":                 {in(fault.Source, &fault.Interruption{Signal: unix.SIGTERM}), fault.KindStopped},
		"verification misses an entry of the target": {in(fault.Target, fault.IfGone(fault.Target, unix.ENOENT)), fault.KindDiffers},
		"verification misses an entry of the source": {in(fault.Source, fault.IfGone(fault.Source, unix.ENOENT)), fault.KindChanged},
		"attributes too large for this file system": {
			in(fault.Target, &fsys.XattrError{Name: "user.a", Err: fault.ErrXattrTooLarge}), fault.KindDenied},
		"attributes that vanished from the source":  {in(fault.Source, &fsys.XattrError{Name: "user.a", Err: unix.ENODATA}), fault.KindChanged},
		"a name too long for this file system":      {in(fault.Target, unix.ENAMETOOLONG), fault.KindDenied},
		"more hard links than this file system has": {in(fault.Target, unix.EMLINK), fault.KindDenied},
		"a file too large for this file system":     {in(fault.Target, unix.EFBIG), fault.KindDenied},
		"a network file system lost its handles":    {in(fault.Source, unix.ESTALE), fault.KindIO},
	} {
		if got := fault.KindOf(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestSplitPath(t *testing.T) {
	for _, c := range [][4]string{
		{"a/b/c", "9", "a/b/c", ""}, {"a/b/c", "3", "a/b", "c"}, {"a/b/c", "2", "a", "b/c"},
		{"abc/d", "2", "abc", "d"}, {"a/b", "0", "a", "b"}, {"abc", "0", "abc", ""},
	} {
		piece, rest := fsys.SplitPath(c[0], int(c[1][0]-'0'))
		if piece != c[2] || rest != c[3] {
			t.Errorf("%q in %s: %q %q", c[0], c[1], piece, rest)
		}
	}
}

// Progress is reported at each phase change, never twice the same, and at the end everything is done.
func TestProgressAtEachPhase(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, n := range []string{"a", "b"} {
		writeFile(t, filepath.Join(src, n), strings.Repeat("x", 100_000))
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
	m := progress.NewMeter(func(p moverreport.Progress) { reported <- p }, time.Millisecond)
	go m.Enter(moverreport.PhaseCopy)
	<-reported
	m.Files.Add(1) // seen at the next tick, and nothing more until something changes
	if p := <-reported; p.Phase != moverreport.PhaseCopy || p.FilesDone != 1 {
		t.Errorf("%+v", p)
	}
	m.Close()
	select {
	case p := <-reported:
		t.Errorf("the same progress was reported again: %+v", p)
	default:
	}
}

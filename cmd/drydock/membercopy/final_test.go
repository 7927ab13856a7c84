//go:build linux && root

package membercopy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

func TestSignalStartsFinalPass(t *testing.T) {
	m := newMember(t, 64, "data", "log")
	m.passUntilRecorded()
	o := m.options()
	o.Progress = onPhase(moverreport.PhaseWait, func(moverreport.Progress) { m.stop() })
	r := Final(context.Background(), o)
	m.requireCopied(r)
	if r.Stage != moverreport.FinalContainer || !reflect.DeepEqual(r.Signal, &signal) || r.Passes == 0 || r.ForecastSeconds <= 0 {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Claims {
		if c.TrustedFiles != 2 || c.Files != 0 || c.Bytes != 0 {
			t.Errorf("nothing had changed since the last pass: %+v", c)
		}
		if c.Total == 0 {
			t.Errorf("the report lacks the size of the whole copy: %+v", c)
		}
	}
	if names, err := os.ReadDir(m.target("data")); err != nil || len(names) != 2 {
		t.Errorf("%v %v", names, err)
	}
}

// The functions decide which hold a result belongs to. The mover only repeats the signal.
func TestReportRepeatsSignal(t *testing.T) {
	m := newMember(t, 32, "data")
	stale := moverreport.Signal{Hold: `another "pod" \ <&>`, Attempt: 7}
	m.annotate(`a "lease" with \ and =`, stale.Encode())
	r := Final(context.Background(), m.options())
	m.requireCopied(r)
	back, err := moverreport.ParseMember(r.Encode(moverreport.TerminationLogLimit))
	if err != nil || !reflect.DeepEqual(back.Signal, &stale) {
		t.Errorf("%v %+v", err, back)
	}
}

// The pass in progress ends, and the final pass completes its unfinished work.
func TestSignalDuringPassEndsIt(t *testing.T) {
	for _, phase := range []moverreport.Phase{moverreport.PhaseScan, moverreport.PhaseCopy, moverreport.PhaseSync, moverreport.PhaseVerify} {
		m := newMember(t, 64, "data", "log")
		m.passUntilRecorded()
		m.write("log/big", strings.Repeat("new", 700_000))
		m.write("log/more", "more")
		o := m.options()
		var once sync.Once
		o.Progress = onPhase(phase, func(p moverreport.Progress) {
			if p.Claim == "log" {
				once.Do(m.stop)
			}
		})
		r := Final(context.Background(), o)
		m.requireCopied(r)
		if r.Signal == nil {
			t.Errorf("%s: %+v", phase, r)
		}
	}
}

// Reading at one byte per second would never end. The final pass shows that the limit does not apply after the wait.
func TestSignalEndsWaitForBandwidth(t *testing.T) {
	m := newMember(t, 32, "data")
	o := m.options()
	o.Limit = mover.NewLimiter(1)
	o.Progress = onPhase(moverreport.PhaseCopy, func(moverreport.Progress) { m.stop() })
	r := Final(context.Background(), o)
	m.requireCopied(r)
	if r.Passes != 0 {
		t.Errorf("%+v", r)
	}
}

func TestLostLeaseEndsWait(t *testing.T) {
	m := newMember(t, 32, "data")
	o := m.options()
	o.Lease = 50 * time.Millisecond
	r := Final(context.Background(), o)
	if r.Code != moverreport.CodeLeaseLost || r.Reason != moverreport.ReasonLeaseLost || r.Signal != nil ||
		!strings.Contains(r.Message, moverreport.LeaseAnnotation) {
		t.Errorf("%+v", r)
	}
	m.requireUnverified(r)
}

// The lease is renewed for longer than its length. Then the member stops.
func TestRenewedLeaseKeepsMoverWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, 32, "data")
		o := m.options()
		o.Lease, o.Poll = time.Minute, time.Second
		go func() {
			for n := range 5 {
				time.Sleep(o.Lease * 9 / 10)
				m.annotate(fmt.Sprint(n), "")
			}
			m.stop()
		}()
		m.requireCopied(Final(t.Context(), o))
	})
}

// The kubelet swaps whole directories, but a reader must not depend on that.
func TestTornAnnotationsAreReadAgain(t *testing.T) {
	m := newMember(t, 32, "data")
	o := m.options()
	whole := fmt.Sprintf("%s=%q\n%s=%q", moverreport.LeaseAnnotation, "7", moverreport.SignalAnnotation, signal.Encode())
	var warnings []string
	cut := len(whole)
	o.Warn = func(text string) { warnings = append(warnings, text); m.publish(whole) }
	m.publish(whole[:cut-5])
	r := Final(context.Background(), o)
	m.requireCopied(r)
	if len(warnings) != 1 || !strings.Contains(warnings[0], moverreport.SignalAnnotation+" is incomplete") || *r.Signal != signal {
		t.Errorf("%q %+v", warnings, r.Signal)
	}
}

func TestLateAnnotationsAreRead(t *testing.T) {
	m := newMember(t, 32, "data")
	o := m.options()
	o.Annotations = filepath.Join(m.base, "later")
	o.Warn = func(text string) { // the file is missing
		must(t, os.Symlink(filepath.Join(m.base, "podinfo", "annotations"), o.Annotations))
		m.stop()
	}
	m.requireCopied(Final(context.Background(), o))
}

func TestWaitEndsIfForecastIsTooLong(t *testing.T) {
	m := newMember(t, 32, "data")
	o := m.options()
	o.MaxStop = time.Nanosecond
	r := Final(context.Background(), o)
	if r.Code != moverreport.CodeNotConverged || r.Result != moverreport.ResultNotConverged ||
		r.Passes != maxPassesOverLimit || r.Signal != nil {
		t.Errorf("%+v", r)
	}
	m.requireUnverified(r)
}

// A failure beside the running member ends the wait, because the final pass would fail, too.
func TestFailedPassEndsWait(t *testing.T) {
	m := newMember(t, 32, "data", "log")
	o := m.options()
	o.Progress = onPhase(moverreport.PhaseWait, func(moverreport.Progress) {
		must(t, os.RemoveAll(m.source("log")))
	})
	r := Final(context.Background(), o)
	if r.Code != moverreport.CodeUsage || !strings.HasPrefix(r.Message, "claim log: ") {
		t.Errorf("%+v", r)
	}
	m.requireUnverified(r)
}

func TestFinalEndsOnSignalInEveryState(t *testing.T) {
	for name, c := range map[string]struct {
		phase moverreport.Phase
		final bool // in the final pass
	}{
		"a first pass scans": {moverreport.PhaseScan, false}, "a first pass copies": {moverreport.PhaseCopy, false},
		"a first pass verifies": {moverreport.PhaseVerify, false}, "it waits": {moverreport.PhaseWait, false},
		"the final pass scans": {moverreport.PhaseScan, true}, "the final pass copies": {moverreport.PhaseCopy, true},
		"the final pass flushes": {moverreport.PhaseSync, true}, "the final pass verifies": {moverreport.PhaseVerify, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t, 32, "data")
			ctx, terminate := context.WithCancelCause(context.Background())
			o := m.options()
			o.Idle = time.Hour
			o.Progress = func(p moverreport.Progress) {
				switch {
				case p.Phase == c.phase && c.final == (p.Pass == 0):
					terminate(terminated)
				case c.final && p.Phase == moverreport.PhaseWait:
					m.stop()
				}
			}
			r := Final(ctx, o)
			if r.Code != moverreport.CodeTerminated || r.Reason != moverreport.ReasonInterrupted || (r.Signal != nil) != c.final {
				t.Errorf("%+v", r)
			}
			m.requireUnverified(r)
			names, err := filepath.Glob(m.target("data/*"))
			must(t, err)
			if _, err := os.Stat(m.target("data/.drydock-copy-target.marker")); err != nil && len(names) > 0 {
				t.Errorf("the marker of the incomplete target is gone: %v", err)
			}
			m.stop()
			m.requireCopied(Final(context.Background(), m.options()))
		})
	}
}

// A hold is released: the member runs again and writes while the final pass reads.
func TestFinalPassFailsIfMemberRunsAgain(t *testing.T) {
	m := newMember(t, 32, "data")
	m.stop()
	o := m.options()
	o.Progress = func(p moverreport.Progress) {
		if p.Phase == moverreport.PhaseVerify && p.Pass == 0 {
			m.write("data/big", "changed")
		}
	}
	r := Final(context.Background(), o)
	if r.Code != moverreport.CodeSourceChanged || r.Signal == nil {
		t.Errorf("%+v", r)
	}
	m.requireUnverified(r)
}

// A final pass completes its targets, but the hold is released nevertheless, and the member writes. The next attempt
// needs Refill.
func TestNextAttemptAfterCompletedOneNeedsRefill(t *testing.T) {
	m := newMember(t, 32, "data")
	m.stop()
	m.requireCopied(Final(context.Background(), m.options()))
	m.write("data/big", strings.Repeat("again", 400_000))
	m.annotate("lease", "")
	if r := First(context.Background(), m.options()); r.Code != moverreport.CodeTargetNotEmpty {
		t.Errorf("%+v", r)
	}
	o := m.options()
	o.Refill = true
	if r := First(context.Background(), o); r.Code != moverreport.CodeOK {
		t.Fatalf("%+v", r)
	}
	m.stop()
	m.requireCopied(Final(context.Background(), m.options()))
}

// Files that were verified while one pod ran are not trusted while another pod runs.
func TestFilesAreReadAgainForAnotherPod(t *testing.T) {
	m := newMember(t, 32, "data")
	m.passUntilRecorded()
	m.stop()
	o := m.options()
	o.Member = "uid-2"
	r := Final(context.Background(), o)
	m.requireCopied(r)
	if r.Claims[0].TrustedFiles != 0 || r.Claims[0].Bytes != 0 {
		t.Errorf("%+v", r)
	}
}

// A final pass that was killed may have completed the first of its claims. With Refill a new mover completes all of
// them.
func TestFinalPassResumesAfterKill(t *testing.T) {
	for _, phase := range []moverreport.Phase{moverreport.PhaseScan, moverreport.PhaseCopy, moverreport.PhaseSync, moverreport.PhaseVerify} {
		for times := 1; times <= 2; times++ { // in the first claim and in the second
			m := newMember(t, 32, "data", "log")
			m.passUntilRecorded()
			m.write("log/big", strings.Repeat("new", 700_000))
			m.stop()
			if !(child{Base: m.base, Claims: m.claims, Phase: phase, Times: times, Final: true}).killed(t) {
				t.Fatal("the child was not killed")
			}
			m.write("data/big", strings.Repeat("more", 500_000))
			o := m.options()
			if o.Refill = times == 2; First(context.Background(), o).Code != moverreport.CodeOK {
				t.Errorf("%s %d", phase, times)
			}
			m.requireCopied(Final(context.Background(), m.options()))
		}
	}
}

// Changes that the member writes while the mover waits are copied before the member stops.
func TestWaitingMoverCopiesChanges(t *testing.T) {
	m := newMember(t, 96, "data")
	m.passUntilRecorded()
	o := m.options()
	var once sync.Once
	o.Progress = onPhase(moverreport.PhaseWait, func(p moverreport.Progress) {
		once.Do(func() { m.write("data/new", strings.Repeat("new", 8_000_000)) })
		if p.Pass >= 2 {
			m.stop()
		}
	})
	r := Final(context.Background(), o)
	m.requireCopied(r)
	if r.Claims[0].Bytes != 0 || r.Passes < 2 {
		t.Errorf("%+v", r)
	}
}

func TestReportOfManyClaimsFitsLimit(t *testing.T) {
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprintf("data-%d", i))
	}
	m := newMember(t, 256, names...)
	if r := First(context.Background(), m.options()); r.Code != moverreport.CodeOK || len(r.Claims) != 15 {
		t.Fatalf("%+v", r)
	}
	m.stop()
	r := Final(context.Background(), m.options())
	m.requireCopied(r)
	back, err := moverreport.ParseMember(r.Encode(moverreport.TerminationLogLimit))
	if err != nil || len(back.Claims) != 15 || back.Claims[14].Verified != r.Claims[14].Verified {
		t.Errorf("%v %+v", err, back)
	}
}

// A raw block volume beside a file system: only the blocks of the device that differ are written.
func TestDeviceAndFileSystemWaitTogether(t *testing.T) {
	m := newMember(t, 32, "data")
	const size = 8 << 20
	contents := make([]byte, size)
	for i, r := 0, rand.New(rand.NewPCG(1, 1)); i < size; i += 97 {
		contents[i] = byte(r.IntN(256))
	}
	for side, image := range map[string][]byte{"source": contents, "target": make([]byte, size+1<<20)} {
		path := filepath.Join(m.base, side+".raw")
		must(t, os.WriteFile(path, image, 0o600))
		device := runCommand(t, "losetup", "--find", "--show", path)
		t.Cleanup(func() { runCommand(t, "losetup", "-d", device) })
		must(t, os.Symlink(device, filepath.Join(m.base, side, "raw")))
	}
	m.claims = append(m.claims, moverreport.Claim{Name: "raw", Device: true})
	if r := First(context.Background(), m.options()); r.Code != moverreport.CodeOK || r.Claims[1].Bytes == 0 {
		t.Fatalf("%+v", r)
	}
	f, err := os.OpenFile(filepath.Join(m.base, "source", "raw"), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("changed"), 5<<20)
	must(t, errors.Join(err, f.Close()))
	o := m.options()
	var once sync.Once
	o.Progress = onPhase(moverreport.PhaseScan, func(p moverreport.Progress) {
		if p.Claim == "raw" {
			once.Do(m.stop)
		}
	})
	r := Final(context.Background(), o)
	if r.Code != moverreport.CodeOK || len(r.Claims) != 2 || !r.Claims[1].Verified || r.Claims[1].Bytes > 4096 {
		t.Fatalf("%+v", r)
	}
}

// The claims of a stopped member are copied at the same time: one of them is complete while the target of the other one does not answer.
func TestFinalPassCopiesClaimsTogether(t *testing.T) {
	m := newMember(t, 64, "data", "log")
	image := filepath.Join(m.base, "other.image")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 32<<20))
	runCommand(t, "mkfs.ext4", "-q", "-F", image)
	runCommand(t, "mount", "-o", "loop", image, m.target("data"))
	t.Cleanup(func() { runCommand(t, "umount", m.target("data")) })
	if r := First(context.Background(), m.options()); r.Code != moverreport.CodeOK {
		t.Fatalf("%+v", r)
	}
	m.write("data/file", "other contents")
	m.write("log/file", "other contents")
	m.stop()
	o := m.options()
	frozen, logFlushed := make(chan bool, 1), make(chan bool, 1)
	o.Progress = func(p moverreport.Progress) {
		switch {
		case p.Pass != 0:
		case p.Claim == "data" && p.Phase == moverreport.PhaseScan && len(frozen) == 0:
			runCommand(t, "fsfreeze", "--freeze", m.target("data"))
			frozen <- true
		case p.Claim == "log" && p.Phase == moverreport.PhaseVerify && len(logFlushed) == 0:
			logFlushed <- true
		}
	}
	go func() {
		select {
		case <-logFlushed:
		case <-time.After(20 * time.Second):
			t.Error("the copy of the second claim waits for the first one")
		}
		runCommand(t, "fsfreeze", "--unfreeze", m.target("data"))
	}()
	m.requireCopied(Final(context.Background(), o))
}

// The failure of one claim ends the copies of the others, and the report names it.
func TestFailureOfOneClaimEndsFinalPass(t *testing.T) {
	m := newMember(t, 64, "data", "log")
	if r := First(context.Background(), m.options()); r.Code != moverreport.CodeOK {
		t.Fatalf("%+v", r)
	}
	m.stop()
	must(t, os.RemoveAll(m.source("log")))
	r := Final(context.Background(), m.options())
	if r.Code == moverreport.CodeOK || r.Result == moverreport.ResultCopied || !strings.Contains(r.Message, "claim log") {
		t.Errorf("%+v", r)
	}
}

func TestFirstPassesConverge(t *testing.T) {
	m := newMember(t, 64, "data", "log")
	o := m.options()
	var phases, claims []string
	o.Progress = func(p moverreport.Progress) {
		phases, claims = append(phases, string(p.Phase)), append(claims, p.Claim)
	}
	r := First(context.Background(), o)
	if r.Code != moverreport.CodeOK || r.Result != moverreport.ResultConverged || r.Stage != moverreport.FirstContainer ||
		r.Passes != 1 || len(r.PassSeconds) != 1 {
		t.Fatalf("%+v", r)
	}
	if r.ForecastSeconds <= 0 || r.MaxStopSeconds != 3600 || len(r.Claims) != 2 || r.Claims[0].Files != 2 || r.Claims[1].Bytes == 0 ||
		r.Claims[0].Verified {
		t.Errorf("%+v", r)
	}
	if !strings.HasPrefix(strings.Join(phases, " "), "scan copy sync verify scan") ||
		strings.Join(claims[:5], " ") != "data data data data log" {
		t.Errorf("%q %q", phases, claims)
	}
	if r := m.passUntilRecorded(); r.Claims[0].Files != 0 || r.Claims[0].RecordedBytes == 0 {
		t.Errorf("%+v", r)
	}
}

// A pass warns of the files that it copies. Later passes skip these files, and the report still has the warning.
func TestWarningsOfAllPassesAreReported(t *testing.T) {
	m := newMember(t, 64, "data")
	m.write("data/log", "x")
	runCommand(t, "fallocate", "--keep-size", "--length", "1M", m.source("data/log"))
	time.Sleep(2 * settled)
	o := m.options()
	o.MaxStop = time.Nanosecond
	changes := 0
	o.Progress = onPhase(moverreport.PhaseCopy, func(moverreport.Progress) {
		changes++
		m.write("data/big", strings.Repeat(fmt.Sprint(changes), 2_000_000))
	})
	r := First(context.Background(), o)
	want := `the preallocated space (fallocate) of 1 entry is not copied. First: "log"`
	if r.Passes < 3 || strings.Join(r.Claims[0].Warnings, "; ") != want {
		t.Errorf("%+v", r)
	}
}

// A file that is constantly written to keeps the forecast high, however much time passes.
func TestFirstPassesDoNotConvergeForBusyFile(t *testing.T) {
	m := newMember(t, 64, "data")
	o := m.options()
	o.MaxStop = time.Nanosecond
	changes := 0
	o.Progress = onPhase(moverreport.PhaseCopy, func(moverreport.Progress) {
		changes++
		m.write("data/big", strings.Repeat(fmt.Sprint(changes), 2_000_000))
	})
	r := First(context.Background(), o)
	if r.Code != moverreport.CodeNotConverged || r.Reason != moverreport.ReasonNotConverged || r.Result != moverreport.ResultNotConverged {
		t.Fatalf("%+v", r)
	}
	if r.Passes < 3 || r.ForecastSeconds <= 0 || !strings.Contains(r.Message, "longer than the longest stop of 1ns") {
		t.Errorf("%+v", r)
	}
}

func TestFirstPassRefusesForeignTarget(t *testing.T) {
	m := newMember(t, 64, "data", "log")
	must(t, os.WriteFile(m.target("log/ledger"), []byte("x"), 0o600))
	r := First(context.Background(), m.options())
	if r.Code != moverreport.CodeTargetNotEmpty || !strings.HasPrefix(r.Message, "claim log: the target's root holds 1 entry") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(m.target("log/ledger")); err != nil {
		t.Error(err)
	}
}

// A mover that was killed at any point is replaced by another one, which resumes.
func TestFirstPassesResumeAfterKill(t *testing.T) {
	for _, phase := range []moverreport.Phase{moverreport.PhaseScan, moverreport.PhaseCopy, moverreport.PhaseSync, moverreport.PhaseVerify} {
		for times := 1; times <= 2; times++ { // in the first claim and in the second
			m := newMember(t, 32, "data", "log")
			if !(child{Base: m.base, Claims: m.claims, Phase: phase, Times: times}).killed(t) {
				t.Fatal("the child was not killed")
			}
			if r := First(context.Background(), m.options()); r.Code != moverreport.CodeOK {
				t.Errorf("%s %d: %+v", phase, times, r)
			}
			m.stop()
			m.requireCopied(Final(context.Background(), m.options()))
		}
	}
}

func TestFirstPassesEndOnSignal(t *testing.T) {
	for _, phase := range []moverreport.Phase{moverreport.PhaseScan, moverreport.PhaseCopy, moverreport.PhaseVerify, moverreport.PhaseWait} {
		m := newMember(t, 32, "data")
		ctx, terminate := context.WithCancelCause(context.Background())
		o := m.options()
		if phase == moverreport.PhaseWait {
			o.MaxStop, o.Idle, o.Settled = time.Nanosecond, time.Hour, time.Hour
		}
		o.Progress = onPhase(phase, func(moverreport.Progress) { terminate(terminated) })
		r := First(ctx, o)
		if r.Code != moverreport.CodeTerminated || r.Reason != moverreport.ReasonInterrupted {
			t.Errorf("%s: %+v", phase, r)
		}
		m.requireUnverified(r)
	}
}

var terminated = &mover.Interruption{Signal: syscall.SIGTERM}

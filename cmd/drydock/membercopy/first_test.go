//go:build linux && root

package membercopy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

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
		r.Claims[0].Digest != "" {
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

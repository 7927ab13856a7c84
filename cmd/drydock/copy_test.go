//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// trees returns a source with one file and an empty target.
func trees(t *testing.T) (src, dst string) {
	t.Helper()
	src, dst = t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "f"), []byte("contents"), 0o644); err != nil {
		t.Fatal(err)
	}
	return src, dst
}

// lastLine returns the report from the last line of the output.
func lastLine(t *testing.T, out string) moverreport.Report {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	var r moverreport.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return r
}

// TestCopyWritesReport: the report is the last line of stdout and the content of the report file.
func TestCopyWritesReport(t *testing.T) {
	src, dst := trees(t)
	log := filepath.Join(t.TempDir(), "termination-log")
	var stdout, stderr bytes.Buffer
	code := runCopy(context.Background(), []string{"--workers=2", "--report", log, src, dst}, &stdout, &stderr)
	r := lastLine(t, stdout.String())
	if code != moverreport.CodeOK || r.Result != "copied" || r.Files != 1 || !r.Verified || stderr.Len() != 0 {
		t.Fatalf("%d %+v %s", code, r, &stderr)
	}
	written, err := os.ReadFile(log)
	if err != nil || !strings.HasSuffix(stdout.String(), string(written)+"\n") {
		t.Errorf("the report file has %q (%v)", written, err)
	}
	var p moverreport.Progress
	first, _, _ := strings.Cut(stdout.String(), "\n")
	if err := json.Unmarshal([]byte(first), &p); err != nil || p.Phase != moverreport.PhaseScan {
		t.Errorf("the first line is %q", first)
	}
}

func TestCopyFailuresAreReported(t *testing.T) {
	src, dst := trees(t)
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"no arguments":       {nil, moverreport.CodeUsage},
		"one argument":       {[]string{src}, moverreport.CodeUsage},
		"an unknown flag":    {[]string{"--frob", src, dst}, moverreport.CodeUsage},
		"negative workers":   {[]string{"--workers=-1", src, dst}, moverreport.CodeUsage},
		"a missing source":   {[]string{src + "/no", dst}, moverreport.CodeUsage},
		"onto itself":        {[]string{src, src}, moverreport.CodeUsage},
		"a needless record":  {[]string{"--record=r", src, dst}, moverreport.CodeUsage},
		"help is no failure": {[]string{"-h"}, moverreport.CodeOK},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			var stdout, stderr bytes.Buffer
			code := runCopy(context.Background(), append([]string{"--report", log}, c.args...), &stdout, &stderr)
			if code != c.code || stderr.Len() == 0 {
				t.Fatalf("code %d, %q, %q", code, &stdout, &stderr)
			}
			written, err := os.ReadFile(log)
			if code == moverreport.CodeOK {
				if stdout.Len() > 0 || !os.IsNotExist(err) {
					t.Errorf("help is no copy, and has a report: %q, %q %v", &stdout, written, err)
				}
			} else if r := lastLine(t, stdout.String()); r.Result != "failed" || r.Code != code || r.Reason != moverreport.ReasonUsage ||
				r.Message == "" || err != nil || !strings.Contains(stdout.String(), string(written)) {
				t.Errorf("%+v, %q %v", r, written, err)
			}
		})
	}
}

// TestSignalDecidesExitCode: the signal determines the exit code, even if the parent context is cancelled at the same time.
func TestSignalDecidesExitCode(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: moverreport.CodeTerminated, syscall.SIGINT: moverreport.CodeInterrupted} {
		parent, cancel := context.WithCancel(context.Background())
		ctx, stop := withSignals(parent)
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-ctx.Done()
		src, dst := trees(t)
		_, err := mover.Copy(ctx, mover.Options{Source: src, Target: dst})
		if r := mover.NewReport(mover.Result{}, err, 0); r.Code != code || r.Reason != moverreport.ReasonInterrupted {
			t.Errorf("%v: %+v", sig, r)
		}
		stop()
	}
}

func TestCopyEndsWithContext(t *testing.T) {
	src, dst := trees(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := runCopy(ctx, []string{src, dst}, &stdout, &stderr); code != moverreport.CodeTerminated {
		t.Errorf("%d %s", code, &stderr)
	}
}

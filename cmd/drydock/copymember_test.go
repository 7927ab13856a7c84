//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"drydock.dev/shared/moverreport"
)

// memberTrees creates the volumes of two claims. It returns an order, the flags for their paths, and the path of the
// annotations.
func memberTrees(t *testing.T) (order moverreport.Order, places []string, annotations string) {
	t.Helper()
	base := t.TempDir()
	for _, dir := range []string{"source/data", "source/log", "target/data", "target/log"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "source/log/file"), []byte("contents"), 0o644); err != nil {
		t.Fatal(err)
	}
	order = moverreport.Order{Token: "op-1", Member: "uid-1", MaxStop: time.Hour,
		Claims: []moverreport.Claim{{Name: "data"}, {Name: "log", Margin: 1}}}
	return order, []string{"--sources=" + filepath.Join(base, "source"), "--targets=" + filepath.Join(base, "target"),
		"--report=" + filepath.Join(base, "report"), "--mount=pod-1"}, filepath.Join(base, "annotations")
}

// runContainer runs a container's arguments with additional flags. It returns the exit code and the report.
func runContainer(t *testing.T, args []string, out io.Writer, more ...string) (int, moverreport.MemberReport) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := runCopy(context.Background(), append(args[1:], more...), io.MultiWriter(&stdout, out), &stderr)
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	r, err := moverreport.ParseMember([]byte(lines[len(lines)-1]))
	if err != nil || r.Code != code || (code == moverreport.CodeOK) != (stderr.Len() == 0) {
		t.Fatalf("%d %v %+v %s", code, err, r, &stderr)
	}
	for _, flag := range more {
		if path, found := strings.CutPrefix(flag, "--report="); found {
			written, err := os.ReadFile(path)
			if err != nil || string(written) != lines[len(lines)-1] {
				t.Errorf("the report file has %q (%v)", written, err)
			}
		}
	}
	return code, r
}

// trigger calls a function when a line of the log has the phase.
type trigger struct {
	phase moverreport.Phase
	do    func()
}

func (w trigger) Write(line []byte) (int, error) {
	var p moverreport.Progress
	if err := json.Unmarshal(bytes.TrimSpace(line), &p); err == nil && p.Phase == w.phase {
		w.do()
	}
	return len(line), nil
}

func TestFirstAndFinalContainer(t *testing.T) {
	order, places, annotations := memberTrees(t)
	code, r := runContainer(t, order.FirstArgs(), io.Discard, places...)
	if code != moverreport.CodeOK || r.Result != moverreport.ResultConverged || r.Stage != moverreport.FirstContainer ||
		len(r.Claims) != 2 || r.Claims[1].Files != 1 {
		t.Fatalf("%+v", r)
	}
	signal := moverreport.Signal{Hold: "uid-1", Attempt: 1}
	stop := trigger{moverreport.PhaseWait, func() {
		text := fmt.Sprintf("%s=%q\n", moverreport.SignalAnnotation, signal.Encode())
		if err := os.WriteFile(annotations, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}}
	if err := os.WriteFile(annotations, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	code, r = runContainer(t, order.FinalArgs(), stop, append(places, "--annotations="+annotations)...)
	if code != moverreport.CodeOK || r.Result != moverreport.ResultCopied || !reflect.DeepEqual(r.Signal, &signal) ||
		!r.Claims[1].Verified {
		t.Fatalf("%+v", r)
	}
}

func TestSIGTERMEndsWaitingMover(t *testing.T) {
	order, places, annotations := memberTrees(t)
	if err := os.WriteFile(annotations, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	kill := trigger{moverreport.PhaseWait, func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}}
	code, r := runContainer(t, order.FinalArgs(), kill, append(places, "--annotations="+annotations)...)
	if code != moverreport.CodeTerminated || r.Reason != moverreport.ReasonInterrupted || r.Result != moverreport.ResultFailed ||
		r.Signal != nil {
		t.Errorf("%+v", r)
	}
}

func TestSIGTERMEndsPin(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "annotations") // the pin is its first reader, and handles signals by then
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		if err == nil {
			err = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			_ = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}()
	var stdout, stderr bytes.Buffer
	args := append(moverreport.Order{}.PinArgs()[1:], "--annotations="+fifo, "--poll=1h")
	if code := runCopy(context.Background(), args, &stdout, &stderr); code != moverreport.CodeTerminated || stderr.Len() > 0 {
		t.Errorf("%d %s", code, &stderr)
	}
}

func TestInvalidPinFlagsAreRejected(t *testing.T) {
	for _, args := range [][]string{{"--lease=0s"}, {"--poll=0s"}, {"/source"}, {"--claim=data"}} {
		var stderr bytes.Buffer
		code := runCopy(t.Context(), append([]string{"pin"}, args...), io.Discard, &stderr)
		if code != moverreport.CodeUsage || stderr.Len() == 0 {
			t.Errorf("%q: %d %s", args, code, &stderr)
		}
	}
}

// The mover accepts the arguments that the functions write.
func TestMoverAcceptsArgumentsOfOrder(t *testing.T) {
	order := moverreport.Order{Token: "op-1", Member: "uid-1", MaxStop: 90 * time.Second, Bandwidth: 1e6, Lease: time.Minute,
		Refill: true, Claims: []moverreport.Claim{{Name: "data", Margin: 10}, {Name: "raw", Device: true}}}
	t.Setenv(moverreport.PodVariable, "pod-1")
	for _, args := range [][]string{order.FirstArgs(), order.FinalArgs()} {
		m, err := parseMember(args[1], args[2:], io.Discard)
		o := m.options
		if err != nil || o.Token != "op-1" || o.Member != "uid-1" || o.Mount != "pod-1" || o.MaxStop != order.MaxStop || m.bandwidth != 1e6 ||
			o.Limit == nil || !o.Refill || !reflect.DeepEqual(o.Claims, order.Claims) || o.Sources != "/source" || o.Targets != "/target" ||
			m.report != "/dev/termination-log" {
			t.Errorf("%v: %+v", err, m)
		}
		if args[1] == moverreport.FinalContainer && (o.Lease != time.Minute || o.Annotations != "/podinfo/annotations") {
			t.Errorf("%+v", o)
		}
	}
}

func TestInvalidMemberFlagsAreRejected(t *testing.T) {
	good := []string{"--token=op", "--member=uid", "--mount=pod", "--max-stop=1m", "--claim=data"}
	without := func(flag string) []string {
		var rest []string
		for _, f := range good {
			if !strings.HasPrefix(f, flag) {
				rest = append(rest, f)
			}
		}
		return rest
	}
	for name, args := range map[string][]string{
		"nothing":                       nil,
		"no token":                      without("--token"),
		"no member":                     without("--member"),
		"no pod":                        without("--mount"),
		"no maximum stop":               without("--max-stop"),
		"no claim":                      without("--claim"),
		"a claim twice":                 append(good, "--claim=data,device"),
		"a claim without a name":        append(good, "--claim="),
		"a claim outside":               append(good, "--claim=.."),
		"a negative limit":              append(good, "--bandwidth=-1"),
		"settled too short":             append(good, "--settled=1s"),
		"no pause":                      append(good, "--idle=0s"),
		"an argument":                   append(good, "/source"),
		"a flag of the other container": append(good, "--lease=1m"),
		"negative workers":              append(good, "--workers=-1"),
	} {
		code, r := runContainer(t, append([]string{"copy", "first"}, args...), io.Discard)
		if code != moverreport.CodeUsage || r.Reason != moverreport.ReasonUsage || r.Result != moverreport.ResultFailed || r.Message == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var stdout, stderr bytes.Buffer
	code := runCopy(context.Background(), []string{"final", "-h"}, &stdout, &stderr)
	if code != moverreport.CodeOK || !strings.Contains(stderr.String(), "exit codes") {
		t.Errorf("%d %s", code, &stderr)
	}
}

// A pass record must not outlive the mounts of the pod that wrote it, whichever command reads it.
func TestPassesNameTheirPod(t *testing.T) {
	t.Setenv(moverreport.PodVariable, "pod-1")
	for _, pass := range []string{"--first-pass", "--after-first-pass"} {
		c, err := parseCopy([]string{pass, "--token=op", "a", "b"}, io.Discard)
		if err != nil || c.options().Mount != "pod-1" {
			t.Errorf("%s: %v %+v", pass, err, c.options())
		}
	}
}

//go:build linux

package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strconv"
	"time"

	"drydock.dev/cmd/drydock/mover/tree"
)

// measured is a pass in a separate process, so that its memory can be measured. Unlike child, it has no hooks.
type measured struct {
	Source, Target string
	Pass           tree.Pass
	NoVerify       bool
	Profile        string // writes a CPU profile to this file; "" writes none
}

// measurement is the report of the process.
type measurement struct {
	Seconds float64
	CPU     float64 // seconds of all threads, the kernel's included
	Peak    float64 // resident memory in MiB at its highest
	Result  Result
	Error   string
}

func measuredMain(spec string) int {
	var m measured
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		panic(err)
	}
	stop := startProfile(m.Profile)
	began := time.Now()
	result, err := Copy(context.Background(), Options{Source: m.Source, Target: m.Target, Pass: m.Pass, NoVerify: m.NoVerify,
		Token: operation, Settled: settled, OwnOnly: true, Refill: true, ProgressInterval: time.Second, Record: recordOf(m.Target)})
	report := measurement{Seconds: time.Since(began).Seconds(), Peak: peakMemory(), Result: result}
	stop()
	if err != nil {
		report.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		panic(err)
	}
	return 0
}

// peakMemory returns the highest resident memory of this process in MiB. The maximum of getrusage would include the
// process that started it.
func peakMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
	fields := bytes.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(fields[0]), 64)
	return kib / 1024
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// holderWith returns the identity of another process of this machine.
func holderWith(own string, pid int) string {
	parts := strings.Split(own, "_")
	return fmt.Sprintf("%s_%s_%d_another", parts[0], parts[1], pid)
}

func endedProcess(t *testing.T) int {
	t.Helper()
	command := exec.CommandContext(t.Context(), "true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid
}

func TestOnlyLeaseOfEndedLocalProcessIsReleased(t *testing.T) {
	own, ended := identity(), endedProcess(t)
	knowsSpace := processSpace() != "" // elsewhere, no lease is released
	if !knowsSpace && runtime.GOOS == "linux" {
		t.Fatal("the process space is unknown on Linux")
	}
	for name, row := range map[string]struct {
		holder string
		want   bool
	}{
		"a process that has ended":           {holderWith(own, ended), true},
		"a process that runs":                {holderWith(own, os.Getppid()), false},
		"a process of another host":          {"x" + holderWith(own, ended), false},
		"a process of another pid namespace": {strings.Replace(holderWith(own, ended), processSpace(), processSpace()+"1", 1), false},
		"a pod":                              {"drydock-standalone-1_uid", false},
		"not a process id":                   {strings.Replace(holderWith(own, ended), fmt.Sprintf("_%d_", ended), "_-1_", 1), false},
		"no holder":                          {"", false},
	} {
		if got := isEndedProcess(row.holder, own); got != (row.want && knowsSpace) {
			t.Errorf("%s (%s): ended %t", name, row.holder, got)
		}
	}
	t.Setenv("POD_NAME", "drydock-standalone-1")
	t.Setenv("POD_UID", "uid")
	if first, second := identity(), identity(); first != second || first != "drydock-standalone-1_uid" {
		t.Errorf("a container that restarts in its pod has another identity: %s, %s", first, second)
	}
}

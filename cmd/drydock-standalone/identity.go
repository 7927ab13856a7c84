package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// identity returns the name of this process as the holder of the lease. It begins with the name of the pod or of the host.
//
// In a pod, every process of the pod has the same identity. So a container that crashed and restarts keeps the lease.
// This is safe, because the kubelet starts a container only after the previous one has ended. Outside of a pod, each
// process has another identity, see releaseLease.
func identity() string {
	if name, uid := os.Getenv("POD_NAME"), os.Getenv("POD_UID"); name != "" && uid != "" {
		return name + "_" + uid
	}
	host, _ := os.Hostname() // the identity is unique without it
	return fmt.Sprintf("%s_%s_%d_%s", host, processSpace(), os.Getpid(), uuid.NewString())
}

// processSpace returns an id of this boot of the kernel and of the pid namespace. A process id is unique only within
// both. It returns empty on systems that do not report them, such as macOS.
func processSpace() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	namespace, err := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "-" + strings.Trim(namespace, "pid:[]")
}

// isEndedProcess reports whether the holder of a lease was a process in the process space of own, and has certainly ended.
func isEndedProcess(holder, own string) bool {
	theirs, ours := strings.Split(holder, "_"), strings.Split(own, "_")
	if len(theirs) != 4 || len(ours) != 4 || theirs[0] != ours[0] || theirs[1] != ours[1] || ours[1] == "" {
		return false
	}
	pid, err := strconv.Atoi(theirs[2])
	return err == nil && pid > 1 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

//go:build !linux

package main

import "syscall"

// ownGroup puts the child into its own process group, so that Ctrl-C in the terminal does not reach it: it must end after the
// demo has finished with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package main

import "syscall"

// ownGroup puts the child into its own process group, so that Ctrl-C in the terminal does not reach it: it must end after the
// demo has finished with it. The system ends the child when its parent ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

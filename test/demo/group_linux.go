package main

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the child, which is to end after the scene, and ends it with its parent.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

//go:build !linux

package main

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from the child, which is to end after the scene.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

//go:build !linux

package host

import "errors"

// The package compiles on other systems so that the command can say there what to do instead.
var errLinuxOnly = errors.New("this needs Linux")

func killVerified(int, string) error { return errLinuxOnly }
func killMember(int, string) error   { return errLinuxOnly }
func unmount(string) error           { return errLinuxOnly }

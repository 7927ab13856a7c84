//go:build !linux

package host

import "errors"

// The package compiles on other systems, so that the command can print an explanation there.
var errLinuxOnly = errors.New("this needs Linux")

func killVerified(int, string) error { return errLinuxOnly }
func killMember(int, string) error   { return errLinuxOnly }
func unmount(string) error           { return errLinuxOnly }

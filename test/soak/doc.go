// Package soak runs random operations on fifty sets for a long time, while processes are killed, and checks that nothing is lost and
// nothing is left behind.
//
//	set.go, step.go   the expected state of a set, and one step
//	sequence.go       from a seed to a sequence of steps, without effects
//	live.go           the difference between the expected state and the live objects
//	remains.go        the objects that operations have left behind
//	unstage.go        volumes that a killed kubelet has forgotten
//	steady.go         the growth of a process
//	journal.go        one line for each step
//
// The files with the build tag cluster execute the steps on the node of `make cluster`: make soak.
package soak

// Package soak runs random operations on fifty sets for a long time, while processes are killed, and checks that nothing is lost and
// nothing is left behind.
//
//	sequence.go   from a seed to a sequence of steps, without effects; the expected state of a set
//	live.go       the difference between the expected state and the live objects
//	steady.go     the growth of a process; volumes that a killed kubelet has forgotten
//	journal.go    one line for each step; the objects that operations have left behind
//
// The files with the build tag cluster execute the steps on the node of `make cluster`: make soak.
package soak

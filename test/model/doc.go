// Package model explores the interleavings of a resize: the real Decide functions of backup and restore, against a small model of what is
// around them.
//
// The state is a World: real, typed Kubernetes objects in memory, and what the API server cannot see, the processes on the node and the
// data on the volumes. Every part of the platform is a function that returns the Steps that it could take now:
//
//	apiserver.go    create, patch, delete and evict with their preconditions, finalizers and grace periods
//	statefulset.go  the StatefulSet controller
//	volumes.go      the volume binder with its provisioner, and claim protection
//	jobs.go         the Job controller
//	collector.go    the garbage collector
//	kubelet.go      scheduler, kubelet and what runs in the pods, movers among it
//	functions.go    backup and restore: a look is one step, every write of its plan another
//	strangers.go    faults, and writes by others
//
// What real controllers did is replayed: recorder.go makes a trace of what watches have shown, projection.go says what the model and a
// cluster
// have in common of an object, and trace.go looks for a run of the model with the same writes.
//
// A run is a path through that graph. explore.go visits all of it within bounds; invariants.go says what must be true after every step,
// and when nothing is left to do. A counterexample is printed as a story: the shortest list of steps that leads to it.
package model

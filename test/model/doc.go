// Package model explores the interleavings of a resize. It runs the real Decide functions of backup and restore against a small model of
// the rest of the cluster.
//
// The state is a World: real, typed Kubernetes objects in memory, the processes on the node, and the data on the volumes. The API server
// does not know the last two. Every part of the platform is a function that returns the Steps that it could take now:
//
//	apiserver.go    create, patch, delete and evict with their preconditions, finalizers and grace periods
//	statefulset.go  the StatefulSet controller
//	volumes.go      the volume binder with its provisioner, and claim protection
//	jobs.go         the Job controller
//	collector.go    the garbage collector
//	kubelet.go      the scheduler, the kubelet, and the processes in the pods, including movers
//	functions.go    backup and restore: observing and deciding is one step, every write of the plan another
//	strangers.go    faults, and writes by users and other processes
//
// The model is checked against real controllers. recorder.go converts watch events to a trace. projection.go reduces an object to the
// facts that the model shares with a cluster. trace.go searches for a run of the model with the same writes.
//
// A run is a path through the graph of states. explore.go visits the whole graph within bounds. invariants.go checks every state, and
// every state without a next step. A counterexample is printed as a story: the shortest list of steps that leads to it.
package model

// Package model explores the interleavings of a resize. It runs the real Decide functions of backup and restore against a small model of
// the rest of the cluster.
//
// The state is a World: real, typed Kubernetes objects in memory, the processes on the node, and the data on the volumes. The API server
// does not know the last two:
//
//	world.go        the World, Step, and reading and storing objects
//
// Every part of the platform is a function that returns the Steps that it could take now. explore.go puts them together:
//
//	apiserver.go    create, patch, delete and evict with their preconditions, finalizers and grace periods; the garbage collector
//	statefulset.go  the StatefulSet controller
//	volumes.go      the volume binder with its provisioner, and claim protection
//	jobs.go         the Job controller
//	kubelet.go      the scheduler, the kubelet, and the processes in the pods, including movers
//	functions.go    backup and restore: observing and deciding is one step, every write of the plan another. An invocation keeps something
//	                between its steps; the processes on the node and the data on volumes
//	strangers.go    faults, and writes by users and other processes
//
// The model is checked against real controllers. recorder.go converts watch events to a trace, with the facts of an object that the model
// shares with a cluster. trace.go searches for a run of the model with the same writes.
//
// A run is a path through the graph of states. explore.go visits the whole graph within bounds. invariants.go checks every state, and
// every state without a next step.
//
// A counterexample is printed as a story: the shortest list of steps that leads to it. A line names who acts and what happens. The last
// line, after =>, is the state of the operation: its phase, reason and message, then the phase of each member. To read a story, start at
// the problem, and look for the last step that changed the object in question. To keep a story as a test, add it to the tests of
// TestStoriesOfFormerCounterexamplesEndAsExpected: a scenario, and acts with the moment when each one happens.
package model

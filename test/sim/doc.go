// Package sim enumerates what can go wrong between any two writes. An operation runs on the real control plane. At write k the process
// dies, or the API server refuses, or a user interferes. Then new functions start with nothing but the objects and the tick, and the
// operation has to end well, with every claim complete.
//
// Its tests need the control plane of `make cluster SIZE=control-plane` and have the build tag cluster: make test-sim.
package sim

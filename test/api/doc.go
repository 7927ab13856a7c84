// Package api tests the functions on a real API server with the real StatefulSet, Job and volume controllers.
//
// Its tests need the control plane of `make cluster SIZE=control-plane` and have the build tag cluster: make test-api.
package api

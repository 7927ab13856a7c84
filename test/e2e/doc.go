// Package e2e resizes volumes on a real node: real containers, real file systems, and drydock-standalone as a separate process.
//
// Its tests need the node of `make cluster`, or your own cluster by KUBECONFIG, and the images of `make images`. They have the build tag
// cluster: make test-e2e.
package e2e

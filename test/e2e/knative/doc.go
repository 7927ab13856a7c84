// Package knative runs Drydock on a real Knative: the functions as deploy/ ships them, at zero until an event comes, with exactly the
// rights that config/ grants.
//
// Its tests need the cluster of `make knative`, or your own cluster by KUBECONFIG, and the images of `make images`. They have the build tag
// cluster: make test-knative. They run one after the other, because they take Knative's parts away in the middle of an operation.
package knative

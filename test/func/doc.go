// Package functest tries the module's root as what its func.yaml says it is: a project of Knative's func. It builds the
// real command, and with it builds, runs, invokes and deploys a copy of this repository. docs/func.md says what that
// shows and what not.
//
// It is a module of its own, so that func never enters the product's go.mod.
package functest

// Package functest tests the module's root as a project of Knative's func, which it is by its func.yaml. The tests build the real func
// command, and use it to build, run, invoke and deploy a copy of this repository. docs/func.md says what this shows and what it does not
// show.
//
// The package is in a separate module, so that func does not enter the product's go.mod.
package functest

// Package operators tests Drydock with real operators: the released program of an operator runs on a real API server with its controllers,
// creates a StatefulSet for its custom resource, and reconciles it while the set sleeps or is resized. test/kit plays the machines, so no
// container of a database runs.
//
// redis-operator is an actor of the tests, because the module proxy serves no present version of it.
//
// The folders below build are modules without code. Each holds the version of one operator, and make test-operators builds its program.
// They are separate, because the operators need different versions of the same libraries.
package operators

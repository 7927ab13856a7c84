// Package walks runs the Decide functions of idle-timeout and scale-hooks on one StatefulSet with a Scaler, in random order, with crashes
// between their writes and with writes by users and deployment tools. At each step no claim may be lost, and in the end the set must have
// the members that its user wants.
//
// The StatefulSet controller, pause-owner and the Jobs of hooks are a few lines each. What they really do is tested on a cluster.
package walks

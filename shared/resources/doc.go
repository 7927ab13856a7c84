// Package resources builds the objects that Drydock creates. Its functions read and write nothing in the cluster. The name of every object
// derives from the operation, so a retry finds the objects that an earlier try created.
package resources

// Package resources builds the objects that Drydock creates. The builders are pure. Every name derives from the operation, so a retry
// finds the objects of an earlier try.
package resources

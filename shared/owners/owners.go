// Package owners knows how the operators that create StatefulSets are paused: a table of settings on their custom
// resources, and what to write to pause one and to put back what was there. It is pure; pause-owner reads and writes.
package owners

import (
	"slices"
	"strings"
)

// Place is where in an object a setting stands.
type Place string

const (
	Annotation Place = "annotation"
	Label      Place = "label"
	Field      Place = "field"
)

// Setting is a value on a custom resource that makes its operator leave the StatefulSets alone.
type Setting struct {
	In Place
	// Key is the annotation's or label's key, or the field's path with dots, as "spec.clusterOperation.reconciliationPaused".
	Key string
	// Value is what pauses: a string for annotations and labels, a string or a bool for fields.
	Value any
	// Presence marks a key that pauses whatever its value is, also "false".
	Presence bool
}

// Kind is a custom resource.
type Kind struct {
	Name string
	// Plural is the resource's name in URLs and RBAC rules.
	Plural string
}

// Row is what is known of one operator's custom resources.
type Row struct {
	// Operator names the row, in lower case with dashes: redis-operator. It is what --owners takes.
	Operator string
	// Group is the API group of the resources. The version is taken from the owner reference.
	Group string
	Kinds []Kind
	// Pause holds the settings that are made together; none if Up.
	Pause []Setting
	// Up marks a resource that is always controlled by another one, which is to be paused.
	Up bool
	// Off marks a row that nobody has verified in the operator's source or documentation; a ConfigMap can repeat it.
	Off bool
	// Source says where the facts come from.
	Source string
}

// Has reports whether the row is about the kind.
func (r Row) Has(kind string) bool {
	return slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Name == kind })
}

// Plural is the resource's name of the kind.
func (r Row) Plural(kind string) string {
	for _, k := range r.Kinds {
		if k.Name == kind {
			return k.Plural
		}
	}
	return ""
}

// Registry is the table of all that can be paused.
type Registry []Row

// Find returns the row about the kind in the API group. Rows that are off are not found.
func (r Registry) Find(group, kind string) (Row, bool) {
	i := slices.IndexFunc(r, func(row Row) bool { return row.Group == group && row.Has(kind) && !row.Off })
	if i < 0 {
		return Row{}, false
	}
	return r[i], true
}

// Unknown says that no row is about the kind.
func Unknown(group, kind string) string {
	return "Drydock does not know how to pause a " + kind + " of " + group
}

// Operators are the names of the rows that are on, in order, each once.
func (r Registry) Operators() []string {
	var names []string
	for _, row := range r {
		if !row.Off {
			names = append(names, row.Operator)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// path is the field's path in parts.
func (s Setting) path() []string { return strings.Split(s.Key, ".") }

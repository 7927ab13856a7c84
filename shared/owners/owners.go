// Package owners knows how the operators that create StatefulSets are paused, and how they stop by themselves: a table of
// settings on their custom resources, and what to write to make them and to put back what was there. It is pure; the
// functions read and write.
package owners

import (
	"slices"
)

// Place is where in an object a setting stands.
type Place string

const (
	Annotation Place = "annotation"
	Label      Place = "label"
	Field      Place = "field"
)

// Setting is a value on a custom resource that its operator acts on.
type Setting struct {
	In Place
	// Key is the annotation's or label's key, or the field's path with dots, as "spec.clusterOperation.reconciliationPaused".
	// Behind a list's name [*] stands for each of its items: "spec.cassandra.datacenters[*].stopped".
	Key string
	// Value is what pauses or stops: a string for annotations and labels; a string, a bool or an int64 for fields.
	Value any
	// Presence marks a key that counts whatever its value is, also "false".
	Presence bool
}

// Means is what keeps an operator from running a StatefulSet's pods.
type Means string

const (
	// ByPause makes the operator look away. Somebody else has to scale the StatefulSets.
	ByPause Means = "pause"
	// ByStop makes the operator scale its StatefulSets to zero in its own order, and up again when the stop is taken back.
	ByStop Means = "stop"
)

// Moment says when the pause of an operator ends.
type Moment string

const (
	// AtScaled: as soon as the StatefulSet has its replicas back. Many operators have to help pods to get ready. The default.
	AtScaled Moment = "scaled"
	// AtReady: when the StatefulSet is ready.
	AtReady Moment = "ready"
)

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
	// Pause holds the settings that are made together to pause; none if it cannot be paused.
	Pause []Setting
	// Stop holds the settings that are made together to stop; none if the operator cannot do it by itself.
	Stop []Setting
	// Resume is when a pause ends; empty means AtScaled. A stop ends before the set starts, because the operator starts it.
	Resume Moment
	// Up marks a resource that is always controlled by another one, which is to be written instead. It has no settings.
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

// Can reports whether the row knows the means.
func (r Row) Can(by Means) bool { return len(r.settings(by)) > 0 }

func (r Row) settings(by Means) []Setting {
	switch by {
	case ByPause:
		return r.Pause
	case ByStop:
		return r.Stop
	}
	return nil
}

// Registry is the table of all that can be paused or stopped.
type Registry []Row

// FromSettings is the table that Drydock comes with, changed by the rows that the text has (Parse).
func FromSettings(text string) (Registry, error) {
	rows, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return BuiltIn().With(rows), nil
}

// With is the registry with other rows. They stand for those about the same kinds, also for those that are off.
func (r Registry) With(rows Registry) Registry {
	var all Registry
	for _, row := range r {
		row.Kinds = slices.DeleteFunc(slices.Clone(row.Kinds), func(k Kind) bool { return rows.about(row.Group, k.Name) })
		if len(row.Kinds) > 0 {
			all = append(all, row)
		}
	}
	return append(all, rows...)
}

// about reports whether a row is about the kind in the API group, on or off.
func (r Registry) about(group, kind string) bool {
	return slices.ContainsFunc(r, func(row Row) bool { return row.Group == group && row.Has(kind) })
}

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

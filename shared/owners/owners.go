// Package owners has a table of the settings that pause or stop the operators of StatefulSets. It makes the patches that write these
// settings to a custom resource, and the patches that restore the previous ones. It is pure; the functions read and write.
package owners

import (
	_ "embed" // for table.yaml
	"fmt"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
)

// Place says whether a setting is an annotation, a label or a field.
type Place string

const (
	Annotation Place = "annotation"
	Label      Place = "label"
	Field      Place = "field"
)

// Setting is a value on a custom resource that its operator acts on.
type Setting struct {
	In Place
	// Key is the annotation's or label's key, or the field's path with dots, such as "spec.clusterOperation.reconciliationPaused". After a
	// list's name, [*] stands for each of its items: "spec.cassandra.datacenters[*].stopped".
	Key string
	// Value is the value that pauses or stops: a string for annotations and labels; a string, a bool or an int64 for fields.
	Value any
	// Presence marks a key that counts with any value, even "false".
	Presence bool
}

// Means is a way to keep an operator from running a StatefulSet's pods.
type Means string

const (
	// ByPause makes the operator ignore its resource. Drydock then scales the StatefulSets itself.
	ByPause Means = "pause"
	// ByStop makes the operator scale its StatefulSets to zero in its own order, and up again when the stop is undone.
	ByStop Means = "stop"
)

// ResumeMoment says when the pause of an operator ends.
type ResumeMoment string

const (
	// AtScaled ends the pause as soon as the StatefulSet has its replicas back, because many operators must help pods to become ready. It
	// is the default.
	AtScaled ResumeMoment = "scaled"
	// AtReady ends the pause when the StatefulSet is ready.
	AtReady ResumeMoment = "ready"
)

// Kind is a kind of custom resource.
type Kind struct {
	Name string
	// Plural is the resource's name in URLs and RBAC rules.
	Plural string
}

// Row describes how one operator's custom resources are paused and stopped.
type Row struct {
	// Operator names the row in lower case with dashes, such as redis-operator. The flag --owners takes it.
	Operator string
	// Group is the API group of the resources. The version is taken from the owner reference.
	Group string
	Kinds []Kind
	// Pause holds the settings that together pause the operator; empty if it cannot be paused.
	Pause []Setting
	// Stop holds the settings that together make the operator stop its sets; empty if it cannot.
	Stop []Setting
	// Resume says when a pause ends; empty means AtScaled. A stop ends before the set starts, because the operator starts the set.
	Resume ResumeMoment
	// OptIn says on which object the label drydock.dev/managed lasts; empty means OptInSet.
	OptIn OptIn
	// PausedThroughController marks a resource that always has a controller with a row. Drydock writes to the controller instead, so the row
	// has no settings.
	PausedThroughController bool
	// Unverified marks a row that was not verified in the operator's source or documentation. A row of a user's ConfigMap can replace it.
	Unverified bool
	// Storage says where the resource has the sizes of its claims. Empty means that Drydock does not know.
	Storage []Storage
	// OnDifference says what the operator does when Storage and the claims differ. Empty means that Drydock does not know.
	OnDifference OnDifference
	// Source says where the facts come from.
	Source string
	// Ran is the version of the operator that has run with Drydock and does what the row says; empty: only Source says so.
	Ran string
}

// HasKind reports whether the row names the kind.
func (r Row) HasKind(kind string) bool {
	return slices.ContainsFunc(r.Kinds, func(k Kind) bool { return k.Name == kind })
}

// Plural returns the resource name of the kind, or empty.
func (r Row) Plural(kind string) string {
	for _, k := range r.Kinds {
		if k.Name == kind {
			return k.Plural
		}
	}
	return ""
}

// Supports reports whether the row has settings for the means.
func (r Row) Supports(by Means) bool { return len(r.settings(by)) > 0 }

// PrefersStop reports whether a sleep lets the operator stop its sets rather than pausing it. It does not if the stop is only a count of
// zero and the operator can be paused: such an operator has no order of its own, and derives pod templates from the count.
func (r Row) PrefersStop() bool {
	onlyCount := !slices.ContainsFunc(r.Stop, func(s Setting) bool { return s.Value != int64(0) })
	return r.Supports(ByStop) && !(r.Supports(ByPause) && onlyCount)
}

// settings returns the row's settings for the means.
func (r Row) settings(by Means) []Setting {
	switch by {
	case ByPause:
		return r.Pause
	case ByStop:
		return r.Stop
	}
	return nil
}

// Registry is a table of rows.
type Registry []Row

// With returns the registry with additional rows. They replace the present rows of the same kinds, even rows that are off.
func (r Registry) With(rows Registry) Registry {
	var all Registry
	for _, row := range r {
		row.Kinds = slices.DeleteFunc(slices.Clone(row.Kinds), func(k Kind) bool { return rows.hasKind(row.Group, k.Name) })
		if len(row.Kinds) > 0 {
			all = append(all, row)
		}
	}
	return append(all, rows...)
}

// hasKind reports whether a row names the kind in the API group, on or off.
func (r Registry) hasKind(group, kind string) bool {
	return slices.ContainsFunc(r, func(row Row) bool { return row.Group == group && row.HasKind(kind) })
}

// Find returns the row that names the kind in the API group. It does not find rows that are off.
func (r Registry) Find(group, kind string) (Row, bool) {
	i := slices.IndexFunc(r, func(row Row) bool { return row.Group == group && row.HasKind(kind) && !row.Unverified })
	if i < 0 {
		return Row{}, false
	}
	return r[i], true
}

// UnknownKindMessage returns the message that no row names the kind, with the remedy.
func UnknownKindMessage(group, kind string) string {
	return "Drydock does not know how to pause a " + kind + " of " + group + ". Add a row for it to DRYDOCK_OWNERS (docs/owners.md)"
}

// ConsentCommand returns the command that lets Drydock pause the owners in the namespace.
func ConsentCommand(namespace string) string { return consentCommand(namespace, api.ConsentToPause) }

// UpdateConsentCommand returns the command that also lets Drydock write sizes and classes into the owners in the namespace. The namespace
// may have consented to pauses.
func UpdateConsentCommand(namespace string) string {
	return consentCommand(namespace, api.ConsentToUpdate) + " --overwrite"
}

func consentCommand(namespace string, consent api.OwnerConsent) string {
	return fmt.Sprintf("kubectl label namespace %s %s=%s", namespace, api.PauseOwnersLabel, consent)
}

// Operators returns the sorted names of the rows that are on, without duplicates.
func (r Registry) Operators() []string {
	var names []string
	for _, row := range r {
		if !row.Unverified {
			names = append(names, row.Operator)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// LoadRegistry returns the built-in table with the rows of the text, which Parse reads.
func LoadRegistry(text string) (Registry, error) {
	rows, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return BuiltIn().With(rows), nil
}

//go:embed table.yaml
var tableYAML string

// table parses the built-in table once. The tests parse it, too, so an invalid table is never released.
var table = sync.OnceValue(func() Registry {
	rows, err := parse(tableYAML, reflect.TypeFor[builtInRow]())
	if err != nil {
		panic(fmt.Sprintf("table.yaml of the owners: %v", err))
	}
	return rows
})

// BuiltIn returns the table that Drydock comes with.
func BuiltIn() Registry { return slices.Clone(table()) }

// OptIn says where the label drydock.dev/managed lasts.
type OptIn string

const (
	// OptInSet is the StatefulSet. It is the default.
	OptInSet OptIn = "set"
	// OptInResource is the custom resource. Its operator removes labels that it does not know from its StatefulSets, and copies the labels
	// of the resource to them.
	OptInResource OptIn = "resource"
	// OptInCreation is the custom resource, when it is created. Its operator also copies the labels of the resource into the pod template,
	// so a label on a living resource restarts its pods.
	OptInCreation OptIn = "creation"
)

// OnResource reports whether the label of the row's StatefulSets goes on their custom resource.
func (r Row) OnResource() bool { return r.OptIn == OptInResource || r.OptIn == OptInCreation }

// OptInCommand returns the command that opts the StatefulSet in where that lasts.
func (r Registry) OptInCommand(set *appsv1.StatefulSet) string {
	if row, controller := r.rowOf(set); row.OnResource() {
		return row.optInCommand(set.Namespace, *controller)
	}
	return fmt.Sprintf("kubectl label -n %s sts %s %s=true", set.Namespace, set.Name, api.ManagedLabel)
}

// OptInAdvice says how the StatefulSet stays opted in, if its operator removes the label from it and the resource lacks the label. Else it
// is empty. resource is the controller of the set; nil: it is unknown, and counts as one without the label.
func (r Registry) OptInAdvice(set *appsv1.StatefulSet, resource *unstructured.Unstructured) string {
	row, controller := r.rowOf(set)
	if !row.OnResource() || resource != nil && resource.GetLabels()[api.ManagedLabel] == "true" {
		return ""
	}
	return fmt.Sprintf("the operator of %s %s removes the label %s from its StatefulSets. Label the resource: %s", controller.Kind,
		controller.Name, api.ManagedLabel, row.optInCommand(set.Namespace, *controller))
}

// rowOf returns the row of the set's controller. The row is empty if the set has no controller, or no row names its kind.
func (r Registry) rowOf(set *appsv1.StatefulSet) (Row, *metav1.OwnerReference) {
	controller := metav1.GetControllerOf(set)
	if controller == nil {
		return Row{}, nil
	}
	gv, _ := schema.ParseGroupVersion(controller.APIVersion) // an unreadable version is in no row
	row, _ := r.Find(gv.Group, controller.Kind)
	return row, controller
}

// optInCommand returns the command that labels the resource, and its consequence.
func (r Row) optInCommand(namespace string, resource metav1.OwnerReference) string {
	command := fmt.Sprintf("kubectl label -n %s %s.%s %s %s=true", namespace, r.Plural(resource.Kind), r.Group, resource.Name,
		api.ManagedLabel)
	if r.OptIn == OptInCreation {
		command += " (this restarts the pods, because the operator copies the label into them)"
	}
	return command
}

package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Changes holds the changes that fulfil the request of a set, or make its volumes grow to the floors of growth by usage.
type Changes struct {
	Request   string
	GrowTo    string // the floors; empty if the changes fulfil the request
	Attempt   int
	Templates []api.TemplateTarget
	Claims    []Claim     // the claims that differ from the request, by name
	Recreate  bool        // whether the set has to be created again, with other templates or fields
	Fields    []api.Field // the fields that the set lacks
	// Problems are mistakes in the request itself.
	Problems []Problem

	seed      string                   // of the operation's id; empty for the request itself
	targets   map[string]api.Target    // by template
	restores  map[string]restoredClaim // of a rollback, by claim
	rollsBack string                   // of a rollback: the operation that retired the volumes
}

// Claim is a claim that differs from the request, and the method that changes it.
type Claim struct {
	statefulset.Claim
	Method api.Method
}

// ChangesVolume reports whether the claim gets another volume: a new volume with a copy or, in a rollback, its old volume.
func (c Claim) ChangesVolume() bool {
	return c.Method == api.MethodCopy || c.Method == api.MethodRollback
}

// StopsMember reports whether the claim's member is stopped for it.
func (c Claim) StopsMember() bool { return c.Method != api.MethodExpand }

// Empty reports whether the set and its claims fulfil the request.
func (w *Changes) Empty() bool { return len(w.Problems) == 0 && len(w.Claims) == 0 && !w.Recreate }

func (w *Changes) addProblem(p Problem) { w.Problems = append(w.Problems, p) }

// futureSize returns the claim's future size.
func (w *Changes) futureSize(c Claim) resource.Quantity {
	if back, ok := w.restores[c.Name]; ok {
		return back.Size
	}
	return finalSize(c.PersistentVolumeClaim, w.targets[c.Template])
}

// finalSize returns the size of the claim with the target. A claim that only follows its template and is copied for another reason does not
// shrink.
func finalSize(c *corev1.PersistentVolumeClaim, target api.Target) resource.Quantity {
	if size := statefulset.WantedSize(c); !target.Exact && size.Cmp(target.Size) > 0 {
		return size
	}
	return target.Size
}

func (w *Changes) templateTarget(template string) api.TemplateTarget {
	for _, t := range w.Templates {
		if t.Name == template {
			return t
		}
	}
	return api.TemplateTarget{}
}

// futureClass returns the StorageClass that the claim will have.
func (w *Changes) futureClass(c Claim) string {
	if class := w.templateTarget(c.Template).Class; class != "" {
		return class
	}
	return statefulset.ClassOf(c.PersistentVolumeClaim)
}

// stopsMembers reports whether at least one member has to stop.
func (w *Changes) stopsMembers() bool { return slices.ContainsFunc(w.Claims, Claim.StopsMember) }

// replacesVolumes reports whether at least one claim gets another volume.
func (w *Changes) replacesVolumes() bool { return slices.ContainsFunc(w.Claims, Claim.ChangesVolume) }

// restoredClaim is the target of a claim in a rollback: its old volume, and the size, class and modes that the claim had on it.
type restoredClaim struct {
	api.Target
	volume string
}

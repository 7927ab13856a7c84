package resize

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Changes holds the changes that fulfil the request of a set.
type Changes struct {
	Request   string
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

// NeededChanges returns the changes that the set's request needs. If it returns none, the reason says why. The error explains the reasons
// StatusInvalid and RequestInvalid.
func NeededChanges(in Input) (*Changes, api.Reason, error) {
	if reason, err := ReasonNotToStart(in); reason != "" {
		return nil, reason, err
	}
	changes := Compare(in)
	if changes.Empty() {
		return nil, api.UpToDate, nil
	}
	return changes, "", nil
}

// Busy returns why no operation of any kind may start on the set. It is empty if one may.
func Busy(in Input) (api.Reason, error) {
	set := in.Set
	if set == nil || set.DeletionTimestamp != nil {
		return api.SetGone, nil
	}
	if !statefulset.Managed(set) {
		return api.NotManaged, nil
	}
	records := operation.Of(set)
	if records.ResizeErr != nil {
		return api.StatusInvalid, records.ResizeErr
	}
	if records.Busy(api.KindResize) || records.Resizing() {
		return api.InProgress, nil
	}
	return "", nil
}

// ReasonNotToStart returns why no resize may start on the set, independent of its claims. It is empty if one may. RequestInvalid comes with
// an error,
// because no record has room for a request that is too long.
func ReasonNotToStart(in Input) (api.Reason, error) {
	if reason, err := Busy(in); reason != "" {
		return reason, err
	}
	record, _ := in.Record() //nolint:errcheck // Busy has read it
	request, requested := in.Set.Annotations[api.ResizeAnnotation]
	switch {
	case in.Retry != nil && !in.Retry.names(record):
		return api.NothingFailed, nil
	case !requested:
		return api.NotRequested, nil
	case api.CheckRequest(request) != nil:
		return api.RequestInvalid, api.CheckRequest(request)
	case !in.retryRequested() && world.Answered(record, request) && !IsRefusalOf(record, request): // a refused request is judged again
		return api.AlreadyRefused, nil
	}
	return "", nil
}

// Compare compares the request on the set with the set and its claims. It does so whether an operation may start or not.
func Compare(in Input) *Changes {
	changes := &Changes{Request: in.Set.Annotations[api.ResizeAnnotation], Attempt: 1}
	record, err := in.Record()
	if err != nil {
		record = nil
	}
	if record != nil {
		changes.Attempt = record.Attempt + 1
	}
	changes.compare(in, record)
	return changes
}

// Empty reports whether the set and its claims fulfil the request.
func (w *Changes) Empty() bool { return len(w.Problems) == 0 && len(w.Claims) == 0 && !w.Recreate }

// maxUnknownTemplates bounds how many unknown templates of a request are reported, because each message quotes the request.
const maxUnknownTemplates = 16

func (w *Changes) addProblem(p Problem) { w.Problems = append(w.Problems, p) }

func (w *Changes) compare(in Input, record *api.Resize) {
	request, err := api.ParseRequest(w.Request)
	if err != nil {
		w.addProblem(problem(api.RequestInvalid, "%v", err))
		return
	}
	if len(in.Set.Spec.VolumeClaimTemplates) == 0 && len(request.Fields) == 0 {
		w.addProblem(problem(api.NoTemplates, "StatefulSet %s has no volumeClaimTemplates, so it has no volume to resize. Remove the "+
			"annotation %s",
			in.Set.Name, api.ResizeAnnotation))
		return
	}
	w.compareFields(in, request)
	method, found := requestedMethod(in.Set)
	w.Problems = append(w.Problems, found...)
	w.Problems = append(w.Problems, stopProblems(in.Set)...)
	claims := statefulset.ClaimsOf(in.Set, in.Claims)
	if api.RequestedByGrowth(in.Set, w.Request) { // full volumes must not wait for an unbound claim, for example of an unschedulable pod
		claims = slices.DeleteFunc(claims, func(c statefulset.Claim) bool { return c.Spec.VolumeName == "" })
	}
	w.targets = world.EffectiveTargets(in.Set, w.Request, request, record)
	for _, template := range slices.Sorted(maps.Keys(w.targets)) {
		target := w.targets[template]
		if statefulset.Template(in.Set, template) == nil && len(w.Problems) >= maxUnknownTemplates {
			continue
		}
		if statefulset.Template(in.Set, template) == nil {
			w.addProblem(unknownTemplate(in, w, template))
			continue
		}
		w.Templates = append(w.Templates, statefulset.TemplateFor(in.Set, template, target))
		w.Recreate = w.Recreate || statefulset.TemplateNeedsChange(in.Set, template, target)
		for _, c := range claims {
			if c.Template == template && (statefulset.NeedsChange(c.PersistentVolumeClaim, target) ||
				in.retryRequested() && isChanging(c.PersistentVolumeClaim, target)) {
				w.Claims = append(w.Claims, Claim{c, in.chooseMethod(c.PersistentVolumeClaim, target, method)})
			}
		}
	}
	slices.SortFunc(w.Claims, func(a, b Claim) int { return cmp.Compare(a.Name, b.Name) })
}

// isChanging reports whether the volume has not reached the claim's requested size or attributes yet. A retry then waits for the claim.
func isChanging(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return statefulset.Growing(claim) || target.Attributes != nil && statefulset.Modifying(claim)
}

// futureSize returns the claim's future size. A claim that only follows its template and is copied for another reason does not shrink.
func (w *Changes) futureSize(c Claim) resource.Quantity {
	if back, ok := w.restores[c.Name]; ok {
		return back.Size
	}
	size, target := statefulset.Requested(c.PersistentVolumeClaim), w.targets[c.Template]
	if !target.Exact && size.Cmp(target.Size) > 0 {
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

// unknownTemplate returns the problem that the set lacks a template of the request.
func unknownTemplate(in Input, w *Changes, template string) Problem {
	return problem(api.UnknownTemplate, "%s=%q names template %q, but StatefulSet %s has %s. Name one of these", api.ResizeAnnotation,
		w.Request,
		template, in.Set.Name, templateNames(in))
}

func templateNames(in Input) []string {
	var names []string
	for _, t := range in.Set.Spec.VolumeClaimTemplates {
		names = append(names, t.Name)
	}
	return names
}

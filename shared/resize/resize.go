// Package resize compares the request on a StatefulSet with its claims. It returns the claims that differ, the method for each, and the
// problems that prevent the resize. It is pure. detect-resize acts on the result, and kubectl drydock plan shows it.
package resize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// Input is the state of the set and the cluster that a resize depends on.
type Input struct {
	*world.Observed
	Settings api.Settings
	Registry owners.Registry
	// Retry is the content of a retry event; nil for any other event.
	Retry *Retry
	// Cluster is nil until a resize turns out to be necessary. Only then it is read.
	Cluster *world.Cluster
}

// Retry is a user's request to repeat a failed or refused operation.
type Retry struct {
	// Operation is the id of the operation to repeat. Empty means the latest operation.
	Operation string
}

// names reports whether the retry names the set's latest operation, and that operation failed or was refused. A retry that is delivered
// twice or late names an older operation and has no effect.
func (r *Retry) names(record *api.Resize) bool {
	return record != nil && (record.Phase == api.Failed || record.Phase == api.Refused) &&
		(r.Operation == "" || r.Operation == record.Operation)
}

// retryRequested reports whether an event or an annotation requests a retry.
func (in Input) retryRequested() bool {
	return in.Retry != nil || operation.Of(in.Set).ResizeRetried(in.Set)
}

// Problem is an obstacle to a resize.
type Problem struct {
	Reason api.Reason `json:"reason"`
	// Message describes the problem and the remedy.
	Message string `json:"message"`
}

func problem(reason api.Reason, format string, args ...any) Problem {
	return Problem{reason, fmt.Sprintf(format, args...)}
}

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

// NeededChanges returns the changes that the set's request needs, or those of a growth by usage if the request needs none. If it returns
// none, the reason says why. The error explains the reasons StatusInvalid and RequestInvalid.
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
// an error, because no record has room for a request that is too long.
func ReasonNotToStart(in Input) (api.Reason, error) {
	if reason, err := Busy(in); reason != "" {
		return reason, err
	}
	record, _ := in.Record() // Busy has read it
	request, requested := api.RequestOf(in.Set)
	switch {
	case in.Retry != nil && !in.Retry.names(record):
		return api.NothingFailed, nil
	case !requested && world.GrowTo(in.Set, record, in.retryRequested()) == "":
		return api.NotRequested, nil
	case api.CheckRequest(request) != nil:
		return api.RequestInvalid, api.CheckRequest(request)
	case requested && !in.retryRequested() && world.Answered(record, request) && record.Phase != api.Refused: // a refusal is judged again
		return api.AlreadyRefused, nil
	}
	return "", nil
}

// Compare compares the request on the set with the set and its claims. If the set fulfils the request, it compares the floors of growth by
// usage with them. So a growth neither delays a request nor makes it fail. It does so whether an operation may start or not.
func Compare(in Input) *Changes {
	request, requested := api.RequestOf(in.Set)
	changes := Changes{Request: request, Attempt: 1}
	record, err := in.Record()
	if err != nil {
		record = nil
	}
	if record != nil {
		changes.Attempt = record.Attempt + 1
	}
	asked, growth := changes, changes
	if requested {
		asked.compareRequest(in, record)
	}
	if growth.GrowTo = world.GrowTo(in.Set, record, in.retryRequested()); growth.GrowTo == "" || !asked.Empty() && !asked.isLeftToOwner(in) {
		return &asked
	}
	growth.seed, growth.targets = api.GrowthRequest(growth.GrowTo), world.FloorTargets(growth.GrowTo)
	if growth.compareTargets(in); growth.isLeftToOwner(in) {
		growth.Recreate = false
	}
	if growth.Empty() {
		return &asked
	}
	return &growth
}

// maxUnknownTemplates bounds how many unknown templates of a request are reported, because each message quotes the request.
const maxUnknownTemplates = 16

func (w *Changes) compareRequest(in Input, record *api.Resize) {
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
	w.targets = world.RequestedTargets(in.Set, w.Request, request, record)
	w.compareTargets(in)
	if owner := statefulset.Controller(in.Set); owner != nil && w.isLeftToOwner(in) {
		w.addProblem(problem(api.LeftToOwner, "every claim fulfils the request, only StatefulSet %s itself differs. Its operator makes it, and "+
			"would undo the change, because %s=%s keeps it active. Change %s %s instead. To let Drydock create the set again once, run: %s",
			in.Set.Name, api.OwnerPolicyAnnotation, api.OwnerIgnore, text.Clip(owner.Kind, longestName), text.Clip(owner.Name, longestName),
			operation.RetryCommand(in.Set)))
	}
}

// longestName is the limit for names of owners in messages, in bytes.
const longestName = 100

// isLeftToOwner reports whether the operation would change no claim, but only create the set again, while its operator is active. The
// operator may then delete the set and create it again, with a copy of the request, without end.
func (w *Changes) isLeftToOwner(in Input) bool {
	ignored := api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore
	return ignored && statefulset.Controller(in.Set) != nil && w.Recreate && len(w.Claims) == 0 && !in.retryRequested()
}

// compareTargets compares the targets with the templates and claims of the set.
func (w *Changes) compareTargets(in Input) {
	method, found := requestedMethod(in.Set)
	w.Problems = append(w.Problems, found...)
	w.Problems = append(w.Problems, stopProblems(in.Set)...)
	claims := statefulset.ClaimsOf(in.Set, in.Claims)
	if w.GrowTo != "" { // full volumes must not wait for an unbound claim, for example of an unschedulable pod
		claims = slices.DeleteFunc(claims, func(c statefulset.Claim) bool { return c.Spec.VolumeName == "" })
	}
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

// compareFields compares the fields of the request with the set.
func (w *Changes) compareFields(in Input, request api.Request) {
	for _, f := range request.Fields {
		if _, known := statefulset.FieldOf(in.Set, f); !known {
			w.addProblem(unknownTemplate(in, w, f.Template))
		}
	}
	w.Fields = statefulset.Unmet(in.Set, request.Fields)
	w.Recreate = w.Recreate || len(w.Fields) > 0
}

// isChanging reports whether the volume has not reached the claim's requested size or attributes yet. A retry then waits for the claim.
func isChanging(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return statefulset.Growing(claim) || target.Attributes != nil && statefulset.Modifying(claim)
}

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

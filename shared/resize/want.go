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

// Wish is a request that the set and its claims do not fulfil yet.
type Wish struct {
	Request   string
	Attempt   int
	Templates []api.TemplateTarget
	Claims    []Claim     // that differ from the request, by name
	Recreate  bool        // the set has to be created again: its templates have to change, or its fields
	Fields    []api.Field // that the set does not have
	// Problems are mistakes in the request itself.
	Problems []Problem

	seed    string                // of the operation's id; empty for the request itself
	targets map[string]api.Target // by template
	back    map[string]returning  // of a rollback, by claim
	undoes  string                // of a rollback: the operation that has left the volumes behind
}

// Claim is a claim that differs from the request, and the method that changes it.
type Claim struct {
	statefulset.Claim
	Method api.Method
}

// Copied reports whether the claim gets another volume: a new one with a copy, or an old one back.
func (c Claim) Copied() bool { return c.Method == api.MethodCopy || c.Method == api.MethodRollback }

// Held reports whether the claim's member is stopped for it.
func (c Claim) Held() bool { return c.Method != api.MethodExpand }

// Want returns the wish of the set. Without a wish the reason says why there is none; StatusInvalid comes with the error.
func Want(in Input) (*Wish, api.Reason, error) {
	if reason, err := Rests(in); reason != "" {
		return nil, reason, err
	}
	wish := Read(in)
	if wish.Empty() {
		return nil, api.UpToDate, nil
	}
	return wish, "", nil
}

// Busy says why no operation of any kind begins on the set; empty if one may.
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

// Rests says why no resize begins on the set, whatever its claims are like; empty if one may. RequestInvalid comes with the error: no record
// has room for a request that is too long.
func Rests(in Input) (api.Reason, error) {
	if reason, err := Busy(in); reason != "" {
		return reason, err
	}
	record, _ := in.Record() //nolint:errcheck // Busy has read it
	request, asked := in.Set.Annotations[api.ResizeAnnotation]
	switch {
	case in.Retry != nil && !in.Retry.concerns(record):
		return api.NothingFailed, nil
	case !asked:
		return api.NotRequested, nil
	case api.CheckRequest(request) != nil:
		return api.RequestInvalid, api.CheckRequest(request)
	case !in.retried() && world.Answered(record, request) && !Refuses(record, request): // a refusal is judged anew
		return api.AlreadyRefused, nil
	}
	return "", nil
}

// Read compares the request on the set with the set and its claims, whether an operation may begin or not.
func Read(in Input) *Wish {
	wish := &Wish{Request: in.Set.Annotations[api.ResizeAnnotation], Attempt: 1}
	record, err := in.Record()
	if err != nil {
		record = nil
	}
	if record != nil {
		wish.Attempt = record.Attempt + 1
	}
	wish.read(in, record)
	return wish
}

// Empty reports whether the set and its claims fulfil the request.
func (w *Wish) Empty() bool { return len(w.Problems) == 0 && len(w.Claims) == 0 && !w.Recreate }

// mostProblems bounds the templates of a request that are told to be unknown: each message quotes the request.
const mostProblems = 16

func (w *Wish) refuse(p Problem) { w.Problems = append(w.Problems, p) }

func (w *Wish) read(in Input, record *api.Resize) {
	request, err := api.ParseRequest(w.Request)
	if err != nil {
		w.refuse(problem(api.RequestInvalid, "%v", err))
		return
	}
	if len(in.Set.Spec.VolumeClaimTemplates) == 0 && len(request.Fields) == 0 {
		w.refuse(problem(api.NoTemplates, "StatefulSet %s has no volumeClaimTemplates, so there is no volume to resize; remove the annotation %s",
			in.Set.Name, api.ResizeAnnotation))
		return
	}
	w.readFields(in, request)
	method, found := methodOf(in.Set)
	w.Problems = append(w.Problems, found...)
	w.Problems = append(w.Problems, strategyOf(in.Set)...)
	claims := statefulset.ClaimsOf(in.Set, in.Claims)
	if api.AskedByGrowth(in.Set, w.Request) { // full volumes do not wait for a claim that gets none, as of a member that fits on no node
		claims = slices.DeleteFunc(claims, func(c statefulset.Claim) bool { return c.Spec.VolumeName == "" })
	}
	w.targets = world.Wanted(in.Set, w.Request, request, record)
	for _, template := range slices.Sorted(maps.Keys(w.targets)) {
		target := w.targets[template]
		if statefulset.Template(in.Set, template) == nil && len(w.Problems) >= mostProblems {
			continue
		}
		if statefulset.Template(in.Set, template) == nil {
			w.refuse(problem(api.UnknownTemplate, "%s=%q names template %q, StatefulSet %s has %s; name one of those", api.ResizeAnnotation,
				w.Request, template, in.Set.Name, templateNames(in)))
			continue
		}
		w.Templates = append(w.Templates, statefulset.TemplateFor(in.Set, template, target))
		w.Recreate = w.Recreate || statefulset.Differs(in.Set, template, target)
		for _, c := range claims {
			if c.Template == template && (statefulset.Lags(c.PersistentVolumeClaim, target) || in.retried() && unfinished(c.PersistentVolumeClaim, target)) {
				w.Claims = append(w.Claims, Claim{c, in.methodFor(c.PersistentVolumeClaim, target, method)})
			}
		}
	}
	slices.SortFunc(w.Claims, func(a, b Claim) int { return cmp.Compare(a.Name, b.Name) })
}

// unfinished reports whether the claim asks for what its volume does not have yet, so that a retry waits for it.
func unfinished(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return statefulset.Growing(claim) || target.Attributes != nil && statefulset.Modifying(claim)
}

// size returns the claim's future size. A claim that only follows its template, and is copied for another reason, does not shrink.
func (w *Wish) size(c Claim) resource.Quantity {
	if back, ok := w.back[c.Name]; ok {
		return back.Size
	}
	size, target := statefulset.Requested(c.PersistentVolumeClaim), w.targets[c.Template]
	if !target.Exact && size.Cmp(target.Size) > 0 {
		return size
	}
	return target.Size
}

func (w *Wish) target(template string) api.TemplateTarget {
	for _, t := range w.Templates {
		if t.Name == template {
			return t
		}
	}
	return api.TemplateTarget{}
}

// class is the StorageClass that the claim will have.
func (w *Wish) class(c Claim) string {
	if class := w.target(c.Template).Class; class != "" {
		return class
	}
	return statefulset.ClassOf(c.PersistentVolumeClaim)
}

// holds reports whether a member is stopped.
func (w *Wish) holds() bool { return slices.ContainsFunc(w.Claims, Claim.Held) }

// copies reports whether a claim gets another volume.
func (w *Wish) copies() bool { return slices.ContainsFunc(w.Claims, Claim.Copied) }

func templateNames(in Input) []string {
	var names []string
	for _, t := range in.Set.Spec.VolumeClaimTemplates {
		names = append(names, t.Name)
	}
	return names
}

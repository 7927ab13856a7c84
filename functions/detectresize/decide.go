package detectresize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// wish is a resize that somebody asked for and that is not there yet.
type wish struct {
	request   string
	attempt   int
	templates []api.TemplateTarget
	targets   map[string]api.Target // by template
	claims    []claim               // those that lag
	recreate  bool                  // the set's own templates have to change
	problem   *problem              // the request itself is wrong
}

// claim is one that lags, and how it comes by what it lacks.
type claim struct {
	sts.Claim
	method api.Method
}

// problem is why a resize is refused.
type problem struct {
	reason  api.Reason
	message string
}

func refuse(reason api.Reason, format string, args ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// Decide is pure. It begins an operation only when the preflight finds nothing against it; a request that is refused
// is refused once, with a status and an Event that say why, and then left alone until somebody asks for a retry.
func Decide(in Input) plan.Plan {
	if status := growing(in); status != nil {
		return expand(in, status)
	}
	wanted, otherwise := want(in)
	if wanted == nil {
		return otherwise
	}
	if wanted.problem != nil {
		return refused(in, wanted, wanted.problem)
	}
	if p, wait := busy(in, wanted); wait {
		return p
	}
	if found := preflight(in, wanted); found != nil {
		return refused(in, wanted, found)
	}
	return begin(in, wanted)
}

// want says what is asked for and missing, or the plan when there is nothing.
func want(in Input) (*wish, plan.Plan) {
	set := in.Set
	if set == nil || set.DeletionTimestamp != nil {
		return nil, plan.Noop(api.SetGone)
	}
	if !sts.Managed(set) {
		return nil, plan.Noop(api.NotManaged)
	}
	status, err := in.Status()
	if err != nil {
		return nil, plan.Do(api.StatusInvalid, warn(in, "", api.StatusInvalid, err.Error()))
	}
	if nap, err := sts.SleepOf(set); err != nil || nap.Active() || sts.CleansUp(set) {
		return nil, plan.Noop(api.InProgress) // it is looked at again when it is awake, or cleaned up
	}
	retry := annotated(in) || in.Retry != nil
	request, asked := set.Annotations[api.ResizeAnnotation]
	switch {
	case status.Active():
		return nil, plan.Noop(api.InProgress)
	case in.Retry != nil && !in.Retry.concerns(status):
		return nil, plan.Noop(api.NothingFailed)
	case status.Held() && retry:
		return nil, takeUpAgain(in, status)
	case status.Held():
		return nil, plan.Noop(api.AlreadyRefused)
	case !asked:
		return nil, plan.Noop(api.NotRequested)
	case !retry && status != nil && status.Request == request && status.Phase != api.Succeeded:
		return nil, plan.Noop(api.AlreadyRefused)
	}
	wanted := &wish{request: request, attempt: 1}
	if status != nil {
		wanted.attempt = status.Attempt + 1
	}
	wanted.problem = wanted.read(in, status)
	if wanted.problem == nil && len(wanted.claims) == 0 && !wanted.recreate {
		return nil, plan.Do(api.UpToDate, plan.PatchOf(plan.StatefulSets, set).Unannotate(api.RetryAnnotation).Actions()...)
	}
	return wanted, plan.Plan{}
}

// read compares the request with the set and its claims.
func (w *wish) read(in Input, status *api.Status) *problem {
	request, err := api.ParseRequest(w.request)
	if err != nil {
		return refuse(api.RequestInvalid, "%v", err)
	}
	if len(in.Set.Spec.VolumeClaimTemplates) == 0 {
		return refuse(api.NoTemplates, "StatefulSet %s has no volumeClaimTemplates, so there is no volume to resize; remove the annotation %s",
			in.Set.Name, api.ResizeAnnotation)
	}
	method, found := methodOf(in.Set)
	if found != nil {
		return found
	}
	claims := sts.ClaimsOf(in.Set, in.Claims)
	targets := sts.Wanted(in.Set, w.request, request, status)
	w.targets = targets
	for _, template := range slices.Sorted(maps.Keys(targets)) {
		target := targets[template]
		if sts.Template(in.Set, template) == nil {
			return refuse(api.UnknownTemplate, "%s=%q names template %q, StatefulSet %s has %s", api.ResizeAnnotation, w.request,
				template, in.Set.Name, templateNames(in))
		}
		w.templates = append(w.templates, api.TemplateTarget{Name: template, Size: target.Size, Class: target.Class, Modes: target.Modes})
		w.recreate = w.recreate || sts.Differs(in.Set, template, target)
		for _, c := range claims {
			if c.Template != template {
				continue
			}
			if sts.Lags(c.PersistentVolumeClaim, target) || (annotated(in) || in.Retry != nil) && sts.Growing(c.PersistentVolumeClaim) {
				w.claims = append(w.claims, claim{c, in.methodFor(c.PersistentVolumeClaim, target, method)})
			}
		}
	}
	slices.SortFunc(w.claims, func(a, b claim) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// size is what the claim is to ask for. One that only follows its template, and has to be copied for another reason, does not
// shrink.
func (w *wish) size(c claim) resource.Quantity {
	size, target := sts.Requested(c.PersistentVolumeClaim), w.targets[c.Template]
	if !target.Exact && size.Cmp(target.Size) > 0 {
		return size
	}
	return target.Size
}

func (w *wish) target(template string) api.TemplateTarget {
	for _, t := range w.templates {
		if t.Name == template {
			return t
		}
	}
	return api.TemplateTarget{}
}

// busy reports what has to settle by itself before a resize can begin.
func busy(in Input, w *wish) (plan.Plan, bool) {
	if w.recreate && sts.TwoRevisions(in.Set) {
		return waits(in, api.RolloutRunning, "a partition keeps replicas of an older revision, which a set that is created again would not know; finish the rollout, or undo it"), true
	}
	for _, c := range w.claims {
		switch link, err := api.LoadLink(c); {
		case err != nil:
			return refused(in, w, refuse(api.LinkInvalid, "%v", err)), true
		case link != nil:
			return waits(in, api.CleaningUp, "claim %s is still part of operation %s", c.Name, link.Operation), true
		case c.Spec.VolumeName == "":
			return waits(in, api.ClaimNotBound, "claim %s has no volume yet", c.Name), true
		case in.Volume(c.Spec.VolumeName) == nil:
			return waits(in, api.ClaimNotBound, "volume %s of claim %s does not exist", c.Spec.VolumeName, c.Name), true
		}
	}
	return plan.Plan{}, false
}

// begin writes the intent down. Claims that can grow on their volumes are told to next; nothing else is touched before
// pause-owner has consented.
func begin(in Input, w *wish) plan.Plan {
	status := w.status(in, api.Planned)
	status.Method, status.Templates, status.Recreate, status.Round = api.MethodExpand, w.templates, w.recreate, 1
	grown := 0
	for _, c := range w.claims {
		target := w.target(c.Template)
		part := api.ClaimStatus{Name: c.Name, UID: c.UID, Template: c.Template, Phase: api.ClaimPending,
			From: sts.Owns(c.PersistentVolumeClaim), To: w.size(c), OldVolume: c.Spec.VolumeName}
		if target.Class != sts.ClassOf(c.PersistentVolumeClaim) {
			part.Class = target.Class
		}
		if sts.ChangesKind(c.PersistentVolumeClaim, api.Target{Modes: target.Modes}) {
			part.Modes = target.Modes
		}
		if c.method == api.MethodExpand {
			part.Method = c.method
			grown++
		} else {
			status.Method = api.MethodCopy
		}
		status.Claims = append(status.Claims, part)
	}
	status.Reason, status.Message = api.ResizeDetected, announcement(len(w.claims)-grown, grown)
	if grown == 0 {
		return hand(in, status)
	}
	status.Phase, status.Deadline = api.Expanding, plan.Moment(in.Now.Add(in.Settings.ExpandTimeout))
	store := plan.Store(in.Set, status).Unannotate(api.RetryAnnotation)
	return plan.Do(api.ResizeDetected, append(store.Actions(), plan.NoteOf(in.Set, status, false))...)
}

func announcement(copied, grown int) string {
	switch {
	case copied == 0 && grown == 0:
		return "the set is created again with its new templates"
	case grown == 0:
		return fmt.Sprintf("%d claims will be copied to new volumes", copied)
	case copied == 0:
		return fmt.Sprintf("%d claims will grow on their volumes", grown)
	}
	return fmt.Sprintf("%d claims will grow on their volumes, then %d will be copied to new ones", grown, copied)
}

// hand gives the operation to pause-owner, and from there to those who stop the set, or create it again.
func hand(in Input, status *api.Status) plan.Plan {
	next := plan.Enter(status, api.Planned, in.Now, in.Settings.PlanTimeout)
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.RetryAnnotation)
	if found := sts.WhenScaled(in.Set); found != sts.Retain && !next.Live() {
		next.WhenScaled = found // or the scale to zero itself would delete the data
		patch.Replace(sts.WhenScaledPath, sts.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.StatusAnnotation, next.Encode())
	return plan.Do(next.Reason, append(patch.Actions(), plan.NoteOf(in.Set, next, false))...).
		Then(events.ResizeDetected, next.Operation)
}

// refused writes the refusal down, once for a request and attempt.
func refused(in Input, w *wish, found *problem) plan.Plan {
	status := w.status(in, api.Refused)
	status.Reason, status.Message = found.reason, found.message
	finished := metav1.NewTime(in.Now)
	status.Finished = &finished
	patch := plan.PatchOf(plan.StatefulSets, in.Set).
		Unannotate(api.RetryAnnotation).Annotate(api.StatusAnnotation, status.Encode())
	return plan.Do(found.reason, append(patch.Actions(), warn(in, status.Operation, found.reason, found.message))...).
		Then(events.OperationFailed, status.Operation)
}

func (w *wish) status(in Input, phase api.Phase) *api.Status {
	return &api.Status{
		Version: api.StatusVersion, Kind: api.KindResize, Phase: phase, Request: w.request, Attempt: w.attempt,
		Operation: resources.OperationID(in.Set.UID, w.request, w.attempt),
		Set:       api.SetRef{Name: in.Set.Name, UID: in.Set.UID}, Replicas: sts.Replicas(in.Set),
		Started: metav1.NewTime(in.Now), Trace: in.Trace,
	}
}

func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}

func templateNames(in Input) []string {
	var names []string
	for _, t := range in.Set.Spec.VolumeClaimTemplates {
		names = append(names, t.Name)
	}
	return names
}

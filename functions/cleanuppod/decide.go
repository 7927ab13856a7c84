package cleanuppod

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Input is what Decide decides on.
type Input struct {
	Now  time.Time
	Name string
	Set  *appsv1.StatefulSet // nil: it does not exist
	// Claims with a name of the set's.
	Claims []*corev1.PersistentVolumeClaim
	// Pods that clean up after a set of the name, have the name of a replica, or use one of the claims.
	Pods []*corev1.Pod
	// Revision is the ControllerRevision of the set's pods; read when the set is being deleted, nil if it is gone.
	Revision *appsv1.ControllerRevision
	// Records are the roles of the records that other operations keep of the set; read where the set is at zero or being deleted.
	Records []api.Role
	// Denied is why the API server would refuse a pod of a new template; empty if it would not.
	Denied string
	// Doubt is why it would not let the pod be made now; empty if it would.
	Doubt string
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// NamespaceEnds is true if it did so because the namespace is being deleted.
	NamespaceEnds bool
	// Retry is true if the event asks to take up what has failed.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
}

// Decide is pure. It takes one step. The cleanup pod has the name of the replica that is gone: as long as it is there, the set
// cannot start one on the claims that it works on.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return in.letGoOfAll()
	}
	doc, err := sts.CleanupOf(in.Set)
	if err != nil {
		return plan.Do(api.StatusInvalid, plan.Record(in.Set.Namespace, in.Set.Name,
			plan.Note{Warning: true, Reason: api.StatusInvalid, Message: err.Error(), UID: in.Set.UID}))
	}
	if p := in.letGoOfStrays(doc); p.Kind == plan.KindDo {
		return p
	}
	if in.Set.DeletionTimestamp != nil {
		return in.deleted(doc)
	}
	if p := in.finalize(); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case !sts.Managed(in.Set):
		return in.cancel(doc, api.NotManaged, "the StatefulSet is not opted in any more")
	case in.resizes() || in.sleeps():
		return plan.Noop(api.InProgress)
	case !sts.CleanupAsked(in.Set):
		return in.cancel(doc, api.NoCleanup, "the StatefulSet has no cleanup pod template any more")
	}
	if _, problem := in.template(doc); problem != nil {
		return in.refuse(doc, problem)
	}
	if in.aborted() && doc.Active() {
		return in.cancel(doc, api.Aborted, "aborted")
	}
	return in.cleanUp(doc)
}

// deleted is about a set that is being deleted. With our finalizer it is cleaned up as if it was scaled to nothing.
func (in Input) deleted(doc *api.Status) plan.Plan {
	if !cleanup.Finalized(in.Set) {
		return in.cancel(doc, api.SetGone, "the StatefulSet is being deleted")
	}
	if why := in.unheld(doc); why != "" {
		return in.letGoOfSet(doc, why)
	}
	return in.cleanUp(doc)
}

// ordinals are the set's places.
func (in Input) ordinals() []cleanup.Ordinal {
	return cleanup.Ordinals(in.Set, in.Claims, in.Pods)
}

// template is the set's, if nothing is wrong with it. What the API server said about it is known while it is new.
func (in Input) template(doc *api.Status) (*corev1.PodTemplateSpec, *cleanup.Problem) {
	if in.refused(doc) {
		return nil, &cleanup.Problem{Reason: doc.Reason, Message: doc.Message}
	}
	template, problem := cleanup.Template(in.Set)
	if problem == nil && in.Denied != "" {
		problem = &cleanup.Problem{Reason: api.TemplateInvalid, Message: "the API server would refuse the cleanup pod: " + clip(in.Denied)}
	}
	return template, problem
}

// refused reports whether the template was refused, and neither it nor anybody asks for another judgement.
func (in Input) refused(doc *api.Status) bool {
	return doc != nil && doc.Phase == api.Refused && doc.Request == cleanup.Digest(in.Set) && !in.retried(doc)
}

// newTemplate is the template if the set's document does not tell yet that it was understood.
func (in Input) newTemplate() (*corev1.PodTemplateSpec, *cleanup.Problem) {
	doc, err := sts.CleanupOf(in.Set)
	asked := sts.CleanupAsked(in.Set) && sts.Managed(in.Set) && in.Set.DeletionTimestamp == nil
	judged := doc != nil && doc.Request == cleanup.Digest(in.Set) && (doc.Phase != api.Refused || in.refused(doc))
	if err != nil || !asked || judged {
		return nil, nil
	}
	return cleanup.Template(in.Set)
}

// resizes reports whether the set is being resized, or one of its claims is not whole.
func (in Input) resizes() bool {
	resize, err := (&sts.Observed{Set: in.Set}).Status()
	return err != nil || resize.Active() || resize.Held() || slices.Contains(in.Records, api.RoleJournal)
}

// sleeps reports whether the set is asleep: then its replicas are away and not gone. The records tell so also when somebody has
// removed the set's own document, which would make every claim one that a scale-down has left behind.
func (in Input) sleeps() bool {
	nap, err := sts.SleepOf(in.Set)
	return err != nil || nap.Active() || slices.Contains(in.Records, api.RoleSleep) || slices.Contains(in.Records, api.RoleOwner)
}

// cleanUp takes the next step for the ordinals that are left behind.
func (in Input) cleanUp(doc *api.Status) plan.Plan {
	ordinals := in.ordinals()
	if p := in.remember(ordinals); p.Kind == plan.KindDo {
		return p
	}
	left := in.left(doc, ordinals)
	if doc.Active() {
		return in.goOn(doc, ordinals, left)
	}
	switch pod := in.ending(ordinals); {
	case in.due(left) && in.begins(doc):
		return in.begin(doc, left)
	case len(left) == 0 && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.FinalizerRemoved, append(unfinalize(plan.PatchOf(plan.StatefulSets, in.Set)).Actions(), in.tell(doc, in.reports(ordinals))...)...)
	case pod != "":
		return plan.Wait(api.ReplicaEnding, "pod %s is still there", pod)
	}
	return in.settle(doc, ordinals)
}

// remember writes down of which claims it was seen that a replica uses them.
func (in Input) remember(ordinals []cleanup.Ordinal) plan.Plan {
	var actions []plan.Action
	for _, c := range cleanup.Seen(in.Set, ordinals) {
		actions = append(actions, plan.PatchOf(plan.Claims, c).Annotate(api.ReplicaOfAnnotation, string(in.Set.UID)).Actions()...)
	}
	return plan.Do(api.ReplicasSeen, actions...)
}

// left are the ordinals to clean up, from the highest down: those that the set does not ask for, with claims that replicas
// have used, and those on which a cleanup pod works already.
func (in Input) left(doc *api.Status, ordinals []cleanup.Ordinal) []cleanup.Ordinal {
	return slices.DeleteFunc(slices.Clone(ordinals), func(o cleanup.Ordinal) bool {
		switch {
		case in.tended(doc, o):
			return false
		case o.Wanted:
			return true
		case in.Set.DeletionTimestamp != nil && o.Pod != nil && sts.IsPodOf(o.Pod, in.Set):
			return false // of a set that is being deleted, replicas are stopped here
		}
		return len(o.Kept()) == 0 || o.Unknown(in.Set) != ""
	})
}

// due reports whether there is something to do for an ordinal now: its replica is gone, or is to be stopped here. While the
// StatefulSet controller stops replicas, no other operation has to wait for a cleanup.
func (in Input) due(left []cleanup.Ordinal) bool {
	return in.Set.DeletionTimestamp != nil && len(left) > 0 || slices.ContainsFunc(left, func(o cleanup.Ordinal) bool {
		return o.Pod == nil || !sts.IsPodOf(o.Pod, in.Set)
	})
}

// ending names a replica that the StatefulSet controller is about to stop; empty if there is none.
func (in Input) ending(ordinals []cleanup.Ordinal) string {
	for _, o := range ordinals {
		if in.Set.DeletionTimestamp == nil && !o.Wanted && o.Pod != nil && sts.IsPodOf(o.Pod, in.Set) {
			return o.Pod.Name
		}
	}
	return ""
}

// tended reports whether a pod of this cleanup is there.
func (in Input) tended(doc *api.Status, o cleanup.Ordinal) bool {
	return o.Pod != nil && in.ours(doc, o.Pod)
}

// ours reports whether the pod was made by the set's present cleanup.
func (in Input) ours(doc *api.Status, pod *corev1.Pod) bool {
	link := cleanup.LinkOf(pod, in.Name)
	return link != nil && doc.Active() && link.Operation == doc.Operation && link.Set.UID == in.Set.UID
}

// begins reports whether there is a reason to begin a cleanup: the last one has not failed, or something has changed since.
func (in Input) begins(doc *api.Status) bool {
	switch {
	case !sts.CleanupRests(doc):
		return true
	case in.retried(doc), doc.Request != cleanup.Digest(in.Set), doc.Replicas != sts.Replicas(in.Set):
		return true
	}
	return in.Set.DeletionTimestamp != nil && !in.Set.DeletionTimestamp.Before(doc.Finished) // in whole seconds
}

// retried reports whether somebody asks to take up what has failed.
func (in Input) retried(doc *api.Status) bool {
	_, annotated := in.Set.Annotations[api.RetryAnnotation]
	return (annotated || in.Retry) && sts.CleanupRests(doc)
}

func (in Input) aborted() bool {
	_, asked := in.Set.Annotations[api.AbortAnnotation]
	return asked
}

// mayBegin reports whether the event may be the beginning of a cleanup.
func (in Input) mayBegin() bool {
	if in.Set == nil || !sts.Managed(in.Set) || !sts.CleanupAsked(in.Set) {
		return false
	}
	doc, err := sts.CleanupOf(in.Set)
	return err == nil && !doc.Active() && in.due(in.left(doc, in.ordinals())) && in.begins(doc)
}

// Tally counts the ordinals that wait for a cleanup pod, and those that have one.
func (in Input) Tally() (pending, running int) {
	if in.Set == nil {
		return 0, 0
	}
	doc, err := sts.CleanupOf(in.Set)
	if err != nil || !sts.Managed(in.Set) || !sts.CleanupAsked(in.Set) || in.resizes() || in.sleeps() {
		return 0, 0
	}
	for _, o := range in.left(doc, in.ordinals()) {
		if in.tended(doc, o) {
			running++
		} else {
			pending++
		}
	}
	return pending, running
}

// ofClaims names claims in a sentence.
func ofClaims(names []string) string {
	if len(names) == 1 {
		return "claim " + names[0]
	}
	return fmt.Sprintf("claims %v", names)
}

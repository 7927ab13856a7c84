package resize

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Document returns the operation's status in the phase, without its claims. A refused operation has one, too.
func (w *Wish) Document(in Input, phase api.Phase) *api.Resize {
	kind := api.KindResize
	if w.undoes != "" {
		kind = api.KindRollback
	}
	return &api.Resize{
		Header: api.Header{
			Version: api.RecordVersion, Kind: kind, Phase: phase, Request: w.Request, Attempt: w.Attempt,
			Operation: api.OperationID(in.Set.UID, cmp.Or(w.seed, w.Request), w.Attempt),
			Set:       api.SetRef{Name: in.Set.Name, UID: in.Set.UID}, Started: metav1.NewTime(in.Now),
		},
		RollsBack: w.undoes, Replicas: sts.Replicas(in.Set),
	}
}

// Operation returns the first status of the resize: the method and the target of each claim.
func (w *Wish) Operation(in Input) *api.Resize {
	status := w.Document(in, api.Planned)
	status.Templates, status.Recreate, status.Round = w.Templates, w.Recreate, 1
	if !status.IsRollback() {
		status.Method = api.MethodExpand
	}
	if w.copies() {
		status.Admitted = admitted(in)
	}
	for _, c := range w.Claims {
		target := w.goal(c)
		part := api.ClaimStatus{Name: c.Name, UID: c.UID, Template: c.Template, Phase: api.ClaimPending,
			From: sts.Owns(c.PersistentVolumeClaim), To: w.size(c), OldVolume: c.Spec.VolumeName}
		if target.Class != sts.ClassOf(c.PersistentVolumeClaim) {
			part.Class = target.Class
		}
		if sts.ChangesKind(c.PersistentVolumeClaim, api.Target{Modes: target.Modes}) {
			part.Modes = target.Modes
		}
		switch c.Method {
		case api.MethodExpand:
			part.Method = c.Method
		case api.MethodRollback:
			part.Method, part.NewVolume = c.Method, w.back[c.Name].volume
		default:
			status.Method = api.MethodCopy
		}
		status.Claims = append(status.Claims, part)
	}
	return status
}

// admitted returns the user, group and SELinux options that admission has given to the set's pods.
func admitted(in Input) *corev1.PodSecurityContext {
	var own []*corev1.Pod
	for _, pod := range in.Pods {
		if sts.IsPodOf(pod, in.Set) {
			own = append(own, pod)
		}
	}
	return resources.Admitted(in.Set, own)
}

// goal returns the target of the claim: that of its template or, in a rollback, the state before.
func (w *Wish) goal(c Claim) api.Target {
	if back, ok := w.back[c.Name]; ok {
		return back.Target
	}
	t := w.target(c.Template)
	return t.Target()
}

package resize

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// Document returns the operation's record in the phase, without its claims. A refused operation has one, too.
func (w *Wish) Document(in Input, phase api.Phase) *api.Resize {
	record := &api.Resize{Header: api.Header{
		Version: api.RecordVersion, Kind: api.KindResize, Phase: phase, Request: w.Request, Attempt: w.Attempt,
		Operation: api.OperationID(in.Set.UID, cmp.Or(w.seed, w.Request), w.Attempt),
		Set:       api.SetRef{Name: in.Set.Name, UID: in.Set.UID}, Started: metav1.NewTime(in.Now),
	}, RollsBack: w.undoes}
	if w.undoes != "" {
		record.Kind = api.KindRollback
	}
	return record
}

// Operation returns the first record of the resize: the method and the target of each claim.
func (w *Wish) Operation(in Input) *api.Resize {
	record := w.Document(in, api.Planned)
	record.Templates, record.ReplaceSet = w.Templates, w.Recreate
	record.Strategy, _ = api.StrategyOf(in.Set)
	if w.Recreate {
		record.Before = before(in, w.Templates)
		record.Fields, record.FieldsBefore = w.Fields, sts.FieldsOf(in.Set, w.Fields)
	}
	if w.copies() {
		record.Admitted = admitted(in)
	}
	for _, c := range w.Claims {
		if c.Method == api.MethodExpand {
			record.Expansions = append(record.Expansions, api.Expansion{Claim: c.Name, UID: c.UID, Template: c.Template, Volume: c.Spec.VolumeName,
				From: sts.Owns(c.PersistentVolumeClaim), To: w.size(c)})
			continue
		}
		member := record.Member(c.Ordinal)
		if member == nil {
			record.Members = append(record.Members, api.Member{Ordinal: c.Ordinal, Phase: api.MemberPending})
			member = &record.Members[len(record.Members)-1]
		}
		member.Claims = append(member.Claims, w.moveOf(c))
	}
	slices.SortFunc(record.Members, func(a, b api.Member) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return record
}

// moveOf describes the move of a claim to another volume.
func (w *Wish) moveOf(c Claim) api.Move {
	target := w.goal(c)
	move := api.Move{Claim: c.Name, UID: c.UID, Template: c.Template, From: sts.Owns(c.PersistentVolumeClaim), To: w.size(c),
		OldVolume: c.Spec.VolumeName}
	if target.Class != sts.ClassOf(c.PersistentVolumeClaim) {
		move.Class = target.Class
	}
	if sts.ChangesKind(c.PersistentVolumeClaim, api.Target{Modes: target.Modes}) {
		move.Modes = target.Modes
	}
	if c.Method == api.MethodRollback {
		move.NewVolume = w.back[c.Name].volume
	}
	return move
}

// before returns the present targets of the set's templates.
func before(in Input, templates []api.TemplateTarget) []api.TemplateTarget {
	var all []api.TemplateTarget
	for _, t := range templates {
		if template := sts.Template(in.Set, t.Name); template != nil {
			is := sts.TargetOf(template)
			all = append(all, api.TemplateTarget{Name: t.Name, Size: is.Size, Class: is.Class, Modes: is.Modes})
		}
	}
	return all
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

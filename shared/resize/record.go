package resize

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// EmptyRecord returns the operation's record in the phase, without its claims. It also serves as the record of a refusal.
func (w *Changes) EmptyRecord(in Input, phase api.Phase) *api.Resize {
	record := &api.Resize{Header: api.Header{
		Version: api.RecordVersion, Kind: api.KindResize, Phase: phase, Request: w.Request, GrowTo: w.GrowTo,
		Attempt:   w.Attempt,
		Operation: api.OperationID(in.Set.UID, cmp.Or(w.seed, w.Request), w.Attempt),
		Set:       api.SetRef{Name: in.Set.Name, UID: in.Set.UID}, Started: metav1.NewTime(in.Now),
	}, RollsBack: w.rollsBack}
	if former, _ := in.Record(); former != nil {
		record.AnsweredRollback = former.AnsweredRollback
	}
	if w.rollsBack != "" {
		record.Kind = api.KindRollback
		AnswerRollback(in.Set, record)
	}
	return record
}

// Record returns the first full record of the resize, with the method and the target of each claim.
func (w *Changes) Record(in Input) *api.Resize {
	record := w.EmptyRecord(in, api.Planned)
	record.Templates, record.ReplaceSet = w.Templates, w.Recreate
	record.Strategy = w.strategy(in)
	if w.Recreate {
		record.Before = currentTargets(in, w.Templates)
		record.Fields, record.FieldsBefore = w.Fields, statefulset.FieldsOf(in.Set, w.Fields)
	}
	if w.replacesVolumes() {
		record.Admitted = admittedContext(in)
	}
	for _, c := range w.Claims {
		expands, attributes := c.Method == api.MethodExpand, w.newAttributes(c)
		if expands || !c.ChangesVolume() && (attributes != nil || lowersRequest(c.PersistentVolumeClaim, w.targets[c.Template])) {
			to := w.futureSize(c)
			if !expands { // the claim grows later, while its member is stopped, and must not grow to a larger size that it still requests
				to = statefulset.GuaranteedSize(c.PersistentVolumeClaim)
			}
			record.Expansions = append(record.Expansions, api.Expansion{Claim: c.Name, UID: c.UID, Template: c.Template, Volume: c.Spec.VolumeName,
				From: statefulset.VolumeSize(c.PersistentVolumeClaim), To: to, Attributes: attributes})
		}
		if !c.StopsMember() {
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

// strategy returns the strategy of the set's annotation. Without the annotation, members whose claims only grow in place stop one at a
// time, because they need not stop together.
func (w *Changes) strategy(in Input) api.Strategy {
	strategy, _ := api.StrategyOf(in.Set) // an unknown strategy is refused
	if _, chosen := in.Set.Annotations[api.StrategyAnnotation]; !chosen && w.stopsMembers() && !w.replacesVolumes() {
		return api.StrategyRolling
	}
	return strategy
}

// moveOf returns the move of a claim to another volume, or its growth while its member is stopped.
func (w *Changes) moveOf(c Claim) api.Move {
	if !c.ChangesVolume() {
		return api.Move{
			Claim:     c.Name,
			UID:       c.UID,
			Template:  c.Template,
			From:      statefulset.VolumeSize(c.PersistentVolumeClaim),
			To:        w.futureSize(c),
			OldVolume: c.Spec.VolumeName,
			InPlace:   true,
		}
	}
	target := w.futureTarget(c)
	move := api.Move{
		Claim:     c.Name,
		UID:       c.UID,
		Template:  c.Template,
		From:      statefulset.VolumeSize(c.PersistentVolumeClaim),
		To:        w.futureSize(c),
		OldVolume: c.Spec.VolumeName,
	}
	if target.Class != statefulset.ClassOf(c.PersistentVolumeClaim) {
		move.Class = target.Class
	}
	if statefulset.ChangesKind(c.PersistentVolumeClaim, api.Target{Modes: target.Modes}) {
		move.Modes = target.Modes
	}
	if statefulset.ChangesAttributes(c.PersistentVolumeClaim, target) || move.Class != "" {
		move.Attributes = target.Attributes
	}
	if c.Method == api.MethodRollback {
		move.NewVolume = w.restores[c.Name].volume
	}
	return move
}

// newAttributes returns the VolumeAttributesClass that the claim gets on its present volume. It is nil if nothing changes.
func (w *Changes) newAttributes(c Claim) *string {
	target := w.targets[c.Template]
	if statefulset.ChangesAttributes(c.PersistentVolumeClaim, target) || target.Attributes != nil &&
		statefulset.Modifying(c.PersistentVolumeClaim) {
		return target.Attributes
	}
	return nil
}

// currentTargets returns the present targets of the set's templates.
func currentTargets(in Input, templates []api.TemplateTarget) []api.TemplateTarget {
	var all []api.TemplateTarget
	for _, t := range templates {
		if template := statefulset.Template(in.Set, t.Name); template != nil {
			present := statefulset.TargetOf(template)
			target := api.TemplateTarget{Name: t.Name, Size: present.Size, Class: present.Class, Modes: present.Modes}
			if attributes := statefulset.AttributesOf(template); t.Attributes != nil {
				target.Attributes = &attributes
			}
			all = append(all, target)
		}
	}
	return all
}

// admittedContext returns the user, group and SELinux options that admission set in the set's pods.
func admittedContext(in Input) *corev1.PodSecurityContext {
	var own []*corev1.Pod
	for _, pod := range in.Pods {
		if statefulset.IsPodOf(pod, in.Set) {
			own = append(own, pod)
		}
	}
	return resources.AdmittedContext(in.Set, own)
}

// futureTarget returns the target of the claim: its template's target or, in a rollback, the claim's former state.
func (w *Changes) futureTarget(c Claim) api.Target {
	if back, ok := w.restores[c.Name]; ok {
		return back.Target
	}
	t := w.templateTarget(c.Template)
	return t.Target()
}

// reasonsInTheSet are the reasons that only a change of the set itself can remove.
var reasonsInTheSet = []api.Reason{api.RequestInvalid, api.MethodUnknown, api.UnknownTemplate, api.NoTemplates, api.NameTooLong,
	api.CheckInvalid, api.HookInvalid, api.TemplateMounted}

// reasonsWithFigures are the reasons whose message contains figures of the whole namespace. These change without any news for the user.
var reasonsWithFigures = []api.Reason{api.QuotaExceeded, api.TooManyRetained, api.Rejected}

// IsRefusalOf reports whether the record is the refusal of the set's present request, or of its present floors of growth by usage.
func IsRefusalOf(record *api.Resize, set *appsv1.StatefulSet) bool {
	request, _ := api.RequestOf(set)
	return record != nil && record.Phase == api.Refused && record.Request == request &&
		(!record.IsGrowth() || record.GrowTo == world.GrowTo(set, record, false))
}

// RefusalDue reports whether this tick judges the refused request again. The cause may be gone: a quota, a class, a claim or a label of the
// namespace may have changed.
func RefusalDue(c operation.Change, record *api.Resize) bool {
	return !slices.Contains(reasonsInTheSet, record.Reason) && operation.RefusalDue(c, &record.Header)
}

// StandingRefusal returns the set's refusal of these very changes. It is nil if there is none, or the user requests another attempt.
func (in Input) StandingRefusal(w *Changes) *api.Resize {
	record, err := in.Record()
	if err != nil || in.retryRequested() || !IsRefusalOf(record, in.Set) || record.GrowTo != w.GrowTo {
		return nil
	}
	return record
}

// UpdatedRefusal returns the standing refusal with the message of the problem found now, which has the same reason. It is nil if the change
// is not worth a write: while the refusal is recent, figures of the namespace are updated only every tenth minute.
func (in Input) UpdatedRefusal(standing *api.Resize, found Problem) *api.Resize {
	figures := slices.Contains(reasonsWithFigures, found.Reason) && operation.IsRecentRefusal(&standing.Header, in.Now) &&
		in.Now.Minute()%int(operation.RefusalInterval/time.Minute) != 0
	if !operation.RefusalOutdated(in.Set, &standing.Header) && (standing.Message == found.Message || figures) {
		return nil
	}
	next := standing.Clone()
	next.Message, next.RefusalDigest = found.Message, operation.RefusalDigest(in.Set)
	return next
}

package pauseowner

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/turns"
	"drydock.dev/shared/world"
)

// observe reads everything that Decide needs.
func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in := Input{Observed: &world.Observed{Now: time.Now(), Name: ref.Name}, Namespace: ref.Namespace, Settings: f.settings}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		in.Set = set
	}
	records, err := in.setOperations()
	if err != nil {
		return in, nil // Decide handles an unreadable record
	}
	if needsTurns(in, records) {
		if err := f.observeTurns(ctx, &in); err != nil {
			return in, err
		}
	}
	planned := in.plannedOperation(records)
	if planned != nil && endsNow(in, planned) {
		if in.Turns == nil && operation.Aborted(in.Set) {
			return in, nil // Decide ends it, whatever the records say
		}
		// The records show whether owners were asked, and the journals whether the turns of former operations are over. The owners are not
		// read.
		return in, f.listRecords(ctx, ref.Namespace, &in)
	}
	if err := f.observeRecords(ctx, ref.Namespace, &in); err != nil {
		return in, err
	}
	if err := f.observeDisagreements(ctx, &in); err != nil {
		return in, err
	}
	if planned != nil && ownersApply(set) {
		return in, f.observeOwners(ctx, &in, planned)
	}
	if refused := in.refusedSleep(records); refused != nil && ownersApply(set) {
		if err := f.observeOwners(ctx, &in, refused); err != nil {
			return in, err
		}
		in.Rejected, in.Untried = f.tryHold(ctx, in, refused)
	}
	if found && len(in.Owners) == 0 {
		return in, f.observeController(ctx, &in)
	}
	return in, nil
}

// acceptsDryRun reports whether no dry run of the holds of the set's planned sleep is rejected, although the API server has rejected one.
// It is also true if a dry run is not possible.
func (f *Function) acceptsDryRun(ctx context.Context, in Input) bool {
	operations, err := in.setOperations()
	sleep, ok := in.plannedOperation(operations).(*api.Sleep)
	if err != nil || !ok {
		return false
	}
	in.Rejected = nil
	rejected, _ := f.tryHold(ctx, in, sleep)
	return rejected == nil
}

// tryHold lets the API server check the records and pauses of owners that a sleep begins with. It returns the error if the API server
// would reject one, and untried if a dry run is not possible.
func (f *Function) tryHold(ctx context.Context, in Input, sleep *api.Sleep) (rejected error, untried bool) {
	holds, _ := judgeOwners(in, sleep)
	for i, h := range holds {
		for _, a := range in.writesOf(sleep, in.Owners[i], h) {
			err := f.client.DryRun(ctx, a)
			switch kube.DryRunResultOf(err) {
			case kube.Denied:
				return fmt.Errorf("%s: %w", a, err), false
			case kube.Untried:
				untried = true
			}
		}
	}
	return nil, untried
}

// observeTurns reads the list of turns. Without the right to read it, no limit applies, as without the list: the Roles may be older than
// this Drydock, and owners must be resumed and resizes must end nevertheless.
func (f *Function) observeTurns(ctx context.Context, in *Input) error {
	config, err := f.client.TurnsConfig(ctx, f.settings)
	if apierrors.IsForbidden(err) {
		f.log.WarnContext(ctx, "cannot read the list of turns, so movers have no limit; apply the current Roles", "error", err.Error())
		return nil
	}
	in.Turns = turns.Read(config, f.settings, in.Now)
	return err
}

// observeOwners reads the resources that would undo the planned operation, and for a sleep also the owner's other sets. The records of
// paused owners were read before.
func (f *Function) observeOwners(ctx context.Context, in *Input, planned operation.Record) error {
	controller := statefulset.Controller(in.Set)
	if controller != nil {
		owner, err := f.findOwner(ctx, in.Set.Namespace, *controller)
		if err != nil {
			return err
		}
		in.Owners = append(in.Owners, *owner)
	}
	scalers, err := f.findScalers(ctx, in.Set, isSleep(planned))
	if err != nil {
		return err
	}
	in.Owners = append(in.Owners, scalers...)
	in.Owners = append(in.Owners, in.pausedScalers()...)
	if err := f.observeConsent(ctx, in); err != nil {
		return err
	}
	if controller == nil || !isSleep(planned) || !in.Owners[0].Row.Supports(owners.ByStop) {
		return nil
	}
	siblings, err := f.siblingsOf(ctx, in.Set, controller, in.Owners[0].Ref.UID)
	in.Siblings = siblings
	return err
}

// observeConsent reads whether the namespace allows pauses of its owners.
func (f *Function) observeConsent(ctx context.Context, in *Input) error {
	if !slices.ContainsFunc(in.Owners, func(o Owner) bool { return o.Object != nil }) {
		return nil
	}
	consent, err := f.consentOf(ctx, in.Set.Namespace)
	for i := range in.Owners {
		in.Owners[i].Allowed = consent.AllowsPause() && in.Owners[i].Object != nil
	}
	return err
}

// consentOf reads what the namespace lets Drydock change in owners. Without the right to read the namespace, that is nothing.
func (f *Function) consentOf(ctx context.Context, namespace string) (api.OwnerConsent, error) {
	consent, err := f.client.OwnerConsent(ctx, namespace)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	return consent, err
}

// observeDisagreements reads what decides about owners that disagree with their set after a resize: whether they still control it, their
// other sets, and whether the namespace lets Drydock change them.
func (f *Function) observeDisagreements(ctx context.Context, in *Input) error {
	for i := range in.OwnerRecords {
		record := &in.OwnerRecords[i]
		if len(in.disagreements(*record)) == 0 {
			continue
		}
		controller := statefulset.Controller(in.Set)
		if controller == nil {
			continue
		}
		top, err := f.findOwner(ctx, in.Namespace, *controller)
		if err != nil {
			return err
		}
		if top.Object == nil || top.Object.GetUID() != record.Object.GetUID() {
			continue
		}
		siblings, err := f.siblingsOf(ctx, in.Set, controller, top.Ref.UID)
		if err != nil {
			return err
		}
		record.Controls = true
		record.Sets = append(slices.DeleteFunc(siblings, func(s *appsv1.StatefulSet) bool { return !statefulset.Managed(s) }), in.Set)
		if !in.updatesOwner() {
			continue
		}
		if in.Consent, err = f.consentOf(ctx, in.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// observeController reads the controller of a set without operations, if the controller's operator may have changed the metadata of the
// set: it removed the label, or copied the record of a pause.
func (f *Function) observeController(ctx context.Context, in *Input) error {
	controller := statefulset.Controller(in.Set)
	if controller == nil || in.Set.DeletionTimestamp != nil || len(in.OwnerRecords) > 0 {
		return nil
	}
	if f.registry.OptInAdvice(in.Set, nil) == "" && !hasCopy(*in) || statefulset.Managed(in.Set) && !hasCopy(*in) {
		return nil
	}
	in.Controller = &Owner{Ref: *controller}
	problem, err := f.readOwner(ctx, in.Set.Namespace, in.Controller)
	in.Controller.Problem = problem
	if !statefulset.Managed(in.Set) && (in.Controller.Object != nil || problem != "") { // without its resource, the set will go soon
		in.OptInAdvice = f.registry.OptInAdvice(in.Set, in.Controller.Object)
	}
	return err
}

// siblingsOf reads the other sets of the topmost owner, which its stop scales to zero. These are the sets of the same controller, and the
// sets whose controllers of the same kind have the same owner.
func (f *Function) siblingsOf(ctx context.Context, of *appsv1.StatefulSet, controller *metav1.OwnerReference, owner types.UID) (
	[]*appsv1.StatefulSet, error) {
	var others []*appsv1.StatefulSet
	err := kube.Pages(ctx, f.client, plan.StatefulSets, of.Namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			if other := statefulset.Controller(&l.Items[i]); other != nil && other.Kind == controller.Kind && l.Items[i].UID != of.UID {
				others = append(others, &l.Items[i])
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var siblings []*appsv1.StatefulSet
	tops := map[types.UID]types.UID{controller.UID: owner} // the topmost owner of each controller
	for _, set := range others {
		other := statefulset.Controller(set)
		if _, known := tops[other.UID]; !known && owner != controller.UID {
			top, err := f.findOwner(ctx, set.Namespace, *other)
			if err != nil {
				return nil, err
			}
			tops[other.UID] = top.Ref.UID
		}
		if tops[other.UID] == owner {
			siblings = append(siblings, set)
		}
	}
	return siblings, nil
}

// findScalers returns the resources that would give the set replicas by themselves. A HorizontalPodAutoscaler does nothing while its
// target is at zero, unless its own minimum is zero (kubernetes pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler). The
// resource that created the autoscaler, such as KEDA's, may do more. Of a Scaler that scales the set, it would change the count while the
// set sleeps, so that the set wakes with another one; through is true if that matters.
func (f *Function) findScalers(ctx context.Context, set *appsv1.StatefulSet, through bool) ([]Owner, error) {
	var direct, indirect []*autoscalingv2.HorizontalPodAutoscaler
	err := kube.Pages(ctx, f.client, plan.Autoscalers, set.Namespace, "", &autoscalingv2.HorizontalPodAutoscalerList{},
		func(l *autoscalingv2.HorizontalPodAutoscalerList) {
			for i := range l.Items {
				target, controller := l.Items[i].Spec.ScaleTargetRef, metav1.GetControllerOf(&l.Items[i])
				switch {
				case isSet(target, set.Name):
					direct = append(direct, &l.Items[i])
				case !through || !isScaler(target.APIVersion, target.Kind) || controller == nil:
				case !isScaler(controller.APIVersion, controller.Kind): // scale deletes the autoscaler that it has created for the Scaler
					indirect = append(indirect, &l.Items[i])
				}
			}
		})
	if err != nil {
		return nil, err
	}
	indirect, err = f.ofScalersOf(ctx, set, indirect)
	if err != nil {
		return nil, err
	}
	var found []Owner
	for _, autoscaler := range slices.Concat(direct, indirect) {
		if controller := metav1.GetControllerOf(autoscaler); controller != nil {
			owner, err := f.findOwner(ctx, set.Namespace, *controller)
			if err != nil {
				return nil, err
			}
			found = append(found, *owner)
			continue
		}
		if minimum := autoscaler.Spec.MinReplicas; minimum != nil && *minimum == 0 {
			found = append(found, Owner{Ref: metav1.OwnerReference{Kind: autoscalerKind, Name: autoscaler.Name},
				Problem: "its minReplicas is 0, so it also scales the set up from zero; set minReplicas to 1"})
		}
	}
	return found, nil
}

// pausedScalers returns the owners that Drydock still pauses for an earlier operation on the set, and that nothing else names: KEDA deletes
// its autoscaler while its resource is paused.
func (in Input) pausedScalers() []Owner {
	var found []Owner
	for _, r := range in.OwnerRecords {
		if r.Err != nil || r.Object == nil || r.Owner.Stopped || r.Row.Operator == "" || r.holder() == nil {
			continue
		}
		known := func(o Owner) bool { return o.Object != nil && o.Object.GetUID() == r.Object.GetUID() }
		if slices.ContainsFunc(slices.Concat(in.Owners, found), known) {
			continue
		}
		ref := metav1.OwnerReference{APIVersion: r.Owner.APIVersion, Kind: r.Owner.Kind, Name: r.Owner.Name, UID: r.Object.GetUID()}
		found = append(found, Owner{Ref: ref, Row: r.Row, Resource: r.Resource, Object: r.Object})
	}
	return found
}

// ofScalersOf returns the autoscalers whose Scaler scales the set.
func (f *Function) ofScalersOf(ctx context.Context, set *appsv1.StatefulSet, all []*autoscalingv2.HorizontalPodAutoscaler) (
	[]*autoscalingv2.HorizontalPodAutoscaler, error) {
	if len(all) == 0 {
		return nil, nil
	}
	ofSet := map[string]bool{}
	err := kube.Pages(ctx, f.client, plan.Scalers, set.Namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			ofSet[l.Items[i].Name] = l.Items[i].Spec.Target == set.Name
		}
	})
	return slices.DeleteFunc(all, func(h *autoscalingv2.HorizontalPodAutoscaler) bool { return !ofSet[h.Spec.ScaleTargetRef.Name] }), err
}

// isSet reports whether an autoscaler's target is the StatefulSet. Other API groups have a kind StatefulSet, too, such as OpenKruise's.
func isSet(target autoscalingv2.CrossVersionObjectReference, name string) bool {
	group, err := schema.ParseGroupVersion(target.APIVersion)
	return err == nil && group.Group == appsv1.GroupName && target.Kind == "StatefulSet" && target.Name == name
}

// isScaler reports whether the kind is Drydock's Scaler.
func isScaler(apiVersion, kind string) bool {
	group, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && group.Group == v1alpha1.GroupVersion.Group && kind == "Scaler"
}

// maxOwners bounds the walk from a StatefulSet up to the resource that users write.
const maxOwners = 4

// findOwner returns the owner that must be paused before an object of the controller is changed.
func (f *Function) findOwner(ctx context.Context, namespace string, controller metav1.OwnerReference) (*Owner, error) {
	ref := &controller
	for range maxOwners {
		o := &Owner{Ref: *ref}
		if problem, err := f.readOwner(ctx, namespace, o); err != nil || problem != "" {
			o.Problem = problem
			return o, err
		}
		if o.Object == nil {
			return o, nil
		}
		up := metav1.GetControllerOf(o.Object)
		switch {
		case up != nil: // the resource's own controller would undo a pause
			ref = up
			continue
		case o.Row.PausedThroughController:
			o.Problem = "it is paused through its controller, and it has none"
		}
		return o, nil
	}
	return &Owner{Ref: *ref, Problem: "its owner references form a circle"}, nil
}

// readOwner reads the owner that the reference names.
func (f *Function) readOwner(ctx context.Context, namespace string, o *Owner) (problem string, err error) {
	gv, err := schema.ParseGroupVersion(o.Ref.APIVersion)
	if err != nil {
		return err.Error(), nil
	}
	row, known := f.registry.Find(gv.Group, o.Ref.Kind)
	if !known {
		return owners.UnknownKindMessage(gv.Group, o.Ref.Kind), nil
	}
	o.Row = row
	if o.Resource, err = row.Resource(o.Ref); err != nil {
		return err.Error(), nil
	}
	o.Object, o.Resource, err = f.client.GetCustom(ctx, o.Resource, namespace, o.Ref.Name)
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%v. To give the rights, apply the output of kubectl drydock rbac --owners %s", err, row.Operator), nil
	}
	if o.Object != nil && o.Object.GetUID() != o.Ref.UID {
		o.Object = nil // another resource with the same name
	}
	return "", err
}

// observeRecords reads the records of paused owners, these owners, and the journals beside them.
func (f *Function) observeRecords(ctx context.Context, namespace string, in *Input) error {
	if err := f.listRecords(ctx, namespace, in); err != nil {
		return err
	}
	for i := range in.OwnerRecords {
		if err := f.readRecordedOwner(ctx, &in.OwnerRecords[i]); err != nil {
			return err
		}
	}
	return nil
}

// listRecords reads the records of paused owners, and the journals beside them.
func (f *Function) listRecords(ctx context.Context, namespace string, in *Input) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.RevisionLink(&l.Items[i])
				if link == nil || link.Set.Name != in.Name {
					continue
				}
				switch link.Role {
				case api.RoleJournal:
					in.Journals = append(in.Journals, &l.Items[i])
				case api.RoleOwner:
					in.OwnerRecords = append(in.OwnerRecords, OwnerRecord{Revision: &l.Items[i], Link: link})
				}
			}
		})
}

// readRecordedOwner reads the owner that the record names.
func (f *Function) readRecordedOwner(ctx context.Context, r *OwnerRecord) error {
	doc, err := api.LoadPausedOwner(r.Revision)
	if err != nil {
		r.Err = err
		return nil
	}
	r.Owner = doc
	gv, err := schema.ParseGroupVersion(doc.APIVersion)
	if err != nil {
		r.Err = fmt.Errorf("record %s/%s of a paused owner: %w", r.Revision.Namespace, r.Revision.Name, err)
		return nil
	}
	r.Row, _ = f.registry.Find(gv.Group, doc.Kind)
	var object *unstructured.Unstructured
	object, r.Resource, err = f.client.GetCustom(ctx, plan.CustomResource(doc.Resource, gv), r.Revision.Namespace, doc.Name)
	if object != nil && owners.IsRecorded(object, doc, r.Link.Operation, r.Link.Set.Name) {
		r.Object = object
	}
	if apierrors.IsForbidden(err) {
		r.Denied, err = err, nil
	}
	return err
}

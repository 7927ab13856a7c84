package pauseowner

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in := Input{Observed: &world.Observed{Now: time.Now(), Name: ref.Name}, Settings: f.settings}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		in.Set = set
	}
	records, err := in.records()
	if err != nil {
		return in, nil //nolint:nilerr // an unreadable document is Decide's to judge
	}
	if found {
		planned := in.planned(records)
		if planned != nil && !asksOwners(in, planned) {
			return in, nil
		}
		if planned != nil {
			if err := f.observeOwners(ctx, &in, planned); err != nil {
				return in, err
			}
		}
	}
	err = f.observeRecords(ctx, ref.Namespace, &in)
	return in, err
}

// observeOwners reads who would undo the planned operation, and for a sleep who else belongs to the set's owner.
func (f *Function) observeOwners(ctx context.Context, in *Input, planned operation.Record) error {
	controller := statefulset.Controller(in.Set)
	if controller != nil {
		owner, err := f.owner(ctx, in.Set.Namespace, *controller)
		if err != nil {
			return err
		}
		in.Owners = append(in.Owners, *owner)
	}
	scalers, err := f.scalers(ctx, in.Set)
	if err != nil {
		return err
	}
	in.Owners = append(in.Owners, scalers...)
	if err := f.observeConsent(ctx, in); err != nil {
		return err
	}
	if controller == nil || !isSleep(planned) || !in.Owners[0].Row.Can(owners.ByStop) {
		return nil
	}
	return f.observeSiblings(ctx, in, controller)
}

// observeConsent finds out which owners may be paused. The namespace is read only where a resource itself does not allow it.
func (f *Function) observeConsent(ctx context.Context, in *Input) error {
	asks := false
	for i := range in.Owners {
		o := &in.Owners[i]
		o.Allowed = o.Object != nil && o.Object.GetAnnotations()[api.AllowAnnotation] == api.AllowPause
		asks = asks || o.Object != nil && !o.Allowed
	}
	if !asks {
		return nil
	}
	all, err := f.client.PauseOwners(ctx, in.Set.Namespace)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	for i := range in.Owners {
		in.Owners[i].Allowed = in.Owners[i].Allowed || all
	}
	return nil
}

// observeSiblings reads the other sets that the owner's stop stops: those of the same controller, and those whose controllers
// of the same kind lead to the same owner.
func (f *Function) observeSiblings(ctx context.Context, in *Input, controller *metav1.OwnerReference) error {
	var others []*appsv1.StatefulSet
	err := kube.Pages(ctx, f.client, plan.StatefulSets, in.Set.Namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			if other := statefulset.Controller(&l.Items[i]); other != nil && other.Kind == controller.Kind && l.Items[i].UID != in.Set.UID {
				others = append(others, &l.Items[i])
			}
		}
	})
	if err != nil {
		return err
	}
	tops := map[types.UID]types.UID{controller.UID: in.Owners[0].Ref.UID} // of each controller
	for _, set := range others {
		other := statefulset.Controller(set)
		if _, known := tops[other.UID]; !known && in.Owners[0].Ref.UID != controller.UID {
			top, err := f.owner(ctx, set.Namespace, *other)
			if err != nil {
				return err
			}
			tops[other.UID] = top.Ref.UID
		}
		if tops[other.UID] == in.Owners[0].Ref.UID {
			in.Siblings = append(in.Siblings, set)
		}
	}
	return nil
}

// scalers are what would give the set replicas by itself. A HorizontalPodAutoscaler does nothing while its target is at zero,
// unless its own minimum is (kubernetes pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler); who made the
// autoscaler, as KEDA, may do more.
func (f *Function) scalers(ctx context.Context, set *appsv1.StatefulSet) ([]Owner, error) {
	var found []Owner
	var targeting []*autoscalingv2.HorizontalPodAutoscaler
	err := kube.Pages(ctx, f.client, plan.Autoscalers, set.Namespace, "", &autoscalingv2.HorizontalPodAutoscalerList{}, func(l *autoscalingv2.HorizontalPodAutoscalerList) {
		for i := range l.Items {
			if target := l.Items[i].Spec.ScaleTargetRef; target.Kind == "StatefulSet" && target.Name == set.Name {
				targeting = append(targeting, &l.Items[i])
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for _, scaler := range targeting {
		if controller := metav1.GetControllerOf(scaler); controller != nil {
			owner, err := f.owner(ctx, set.Namespace, *controller)
			if err != nil {
				return nil, err
			}
			found = append(found, *owner)
			continue
		}
		if scaler.Spec.MinReplicas != nil && *scaler.Spec.MinReplicas == 0 {
			found = append(found, Owner{Ref: metav1.OwnerReference{Kind: autoscalerKind, Name: scaler.Name},
				Problem: "its minReplicas are 0, so it scales the set also from zero; set them to 1"})
		}
	}
	return found, nil
}

// mostOwners bounds the walk from a StatefulSet to the resource that people write.
const mostOwners = 4

// owner finds who has to be paused before what the reference's resource controls is touched.
func (f *Function) owner(ctx context.Context, namespace string, controller metav1.OwnerReference) (*Owner, error) {
	ref := &controller
	for range mostOwners {
		o := &Owner{Ref: *ref}
		if problem, err := f.look(ctx, namespace, o); err != nil || problem != "" {
			o.Problem = problem
			return o, err
		}
		if o.Object == nil {
			return o, nil
		}
		up := metav1.GetControllerOf(o.Object)
		switch {
		case up != nil: // who controls the resource would undo a pause of it
			ref = up
			continue
		case o.Row.Up:
			o.Problem = "it is paused through the resource that controls it, and none does"
		}
		return o, nil
	}
	return &Owner{Ref: *ref, Problem: "its owners lead in a circle"}, nil
}

// look reads the owner that the reference names.
func (f *Function) look(ctx context.Context, namespace string, o *Owner) (problem string, err error) {
	gv, err := schema.ParseGroupVersion(o.Ref.APIVersion)
	if err != nil {
		return err.Error(), nil
	}
	row, known := f.registry.Find(gv.Group, o.Ref.Kind)
	if !known {
		return owners.Unknown(gv.Group, o.Ref.Kind), nil
	}
	o.Row = row
	if o.Resource, err = row.Resource(o.Ref); err != nil {
		return err.Error(), nil
	}
	o.Object, o.Resource, err = f.client.GetCustom(ctx, o.Resource, namespace, o.Ref.Name)
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%v. Give the rights with kubectl drydock rbac --owners %s", err, row.Operator), nil
	}
	if o.Object != nil && o.Object.GetUID() != o.Ref.UID {
		o.Object = nil // another one of the same name
	}
	return "", err
}

// observeRecords reads the records of paused owners, with the owners, and the journals beside them.
func (f *Function) observeRecords(ctx context.Context, namespace string, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			link := api.LoadRecord(&l.Items[i])
			if link == nil || link.Set.Name != in.Name {
				continue
			}
			switch link.Role {
			case api.RoleJournal:
				in.Journals = append(in.Journals, &l.Items[i])
			case api.RoleOwner:
				in.Records = append(in.Records, Record{Revision: &l.Items[i], Link: link})
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range in.Records {
		if err := f.follow(ctx, &in.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

// follow reads the owner that the record is about.
func (f *Function) follow(ctx context.Context, r *Record) error {
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
	if object != nil && object.GetUID() == doc.UID {
		r.Object = object
	}
	if apierrors.IsForbidden(err) {
		r.Denied, err = err, nil
	}
	return err
}

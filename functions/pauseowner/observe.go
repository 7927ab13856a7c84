package pauseowner

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in := Input{Observed: &sts.Observed{Now: time.Now(), Name: ref.Name}, Settings: f.settings}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		in.Set = set
	}
	status, err := in.Status()
	if err != nil || status != nil && status.Phase == api.Planned && !asksOwner(in, status) {
		return in, nil //nolint:nilerr // an unreadable status is Decide's to judge
	}
	if asksOwner(in, status) {
		if in.Owner, err = f.owner(ctx, set); err != nil {
			return in, err
		}
	}
	err = f.observeRecords(ctx, ref.Namespace, &in)
	return in, err
}

// mostOwners bounds the walk from a StatefulSet to the resource that people write.
const mostOwners = 4

// owner finds who has to be paused before the set is stopped, which somebody controls.
func (f *Function) owner(ctx context.Context, set *appsv1.StatefulSet) (*Owner, error) {
	ref := sts.Controller(set)
	for range mostOwners {
		o := &Owner{Ref: *ref}
		if problem, err := f.look(ctx, set.Namespace, o); err != nil || problem != "" {
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
		return fmt.Sprintf("%v; to give the rights: kubectl drydock rbac --owners %s", err, row.Operator), nil
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
			link, err := api.LoadLink(&l.Items[i])
			if err != nil || link == nil || link.Set.Name != in.Name {
				continue
			}
			if link.Role != api.RoleOwner {
				in.Journals = append(in.Journals, &l.Items[i])
				continue
			}
			in.Records = append(in.Records, Record{Revision: &l.Items[i], Link: link})
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
	gv, err := schema.ParseGroupVersion(doc.APIVersion)
	if err != nil {
		r.Err = fmt.Errorf("record %s/%s of a paused owner: %w", r.Revision.Namespace, r.Revision.Name, err)
		return nil
	}
	var object *unstructured.Unstructured
	object, r.Resource, err = f.client.GetCustom(ctx, plan.CustomResource(doc.Resource, gv), r.Revision.Namespace, doc.Name)
	if object != nil && object.GetUID() == doc.UID {
		r.Object = object
	}
	return err
}

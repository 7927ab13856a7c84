package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// errAgreed says that there is nothing to change.
var errAgreed = errors.New("no resource stays paused because it disagrees with the StatefulSet, so nothing was changed")

// updateOwnerOf is updateOwner after an earlier resize.
func (o *resizing) updateOwnerOf(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	return o.updateOwner(ctx, s)
}

// updateOwner writes the sizes and classes that the set has after a resize into the custom resource that is paused for it, with the rights
// of the user. pause-owner then ends the pause.
func (o *resizing) updateOwner(ctx context.Context, s *session) error {
	settings := api.Settings{}
	if _, err := s.measuring().observeSettings(ctx, o.settings, &settings); err != nil {
		return err
	}
	registry, err := owners.LoadRegistry(settings.Owners)
	if err != nil {
		return fmt.Errorf("reading the rows of owners in ConfigMap %s: %w", o.settings, err)
	}
	changes, err := s.disagreements(ctx, registry)
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Fprintln(o.Out, text.Printable(c.String()))
	}
	if err := o.consent(ctx, "Change it?", o.yes); err != nil {
		return err
	}
	_, err = s.apply.Run(ctx, func(ctx context.Context) (plan.Plan, error) {
		changes, err := s.disagreements(ctx, registry) // once more, because a question can stay open for a long time
		var actions []plan.Action
		for _, c := range changes {
			actions = append(actions, owners.Agree(c.owner.Resource, c.owner.Object, c.fields)...)
		}
		return plan.Do(api.OwnerUpdated, actions...).Then("written", ""), err
	})
	if err == nil {
		fmt.Fprintf(o.Out, "The pause ends within a minute. Follow it with: kubectl drydock status -n %s sts/%s\n", s.namespace, s.name)
	}
	return err
}

// disagreement is an owner that stays paused because it asks for another size or class than the set.
type disagreement struct {
	owner  release.Owner
	fields []owners.Difference
}

func (d disagreement) String() string {
	var words []string
	for _, f := range d.fields {
		words = append(words, f.String())
	}
	return fmt.Sprintf("%s %s: %s", d.owner.Doc.Kind, d.owner.Doc.Name, strings.Join(words, ", "))
}

// disagreements returns the owners that stay paused after a resize of the set, because they disagree with what it has changed. It is an
// error if there is none, if a resize still runs, or if another set of an owner asks for something else in the same field.
func (s *session) disagreements(ctx context.Context, registry owners.Registry) ([]disagreement, error) {
	set, err := s.managed(ctx)
	if err != nil {
		return nil, err
	}
	switch record, err := statusOf(set); {
	case err != nil:
		return nil, err
	case record.Active() && !operation.NoLongerStops(set, record):
		return nil, fmt.Errorf("resize %s of StatefulSet %s/%s is %s, and the resource is changed only after it. Follow it with: "+
			"kubectl drydock status -n %[2]s sts/%[3]s --watch", record.Purpose(), s.namespace, s.name, record.Phase)
	}
	in, err := s.releasing().holdingsOf(ctx, s.namespace, s.name)
	if err != nil {
		return nil, err
	}
	var found []disagreement
	for _, owner := range in.Owners {
		if owner.Err != nil {
			return nil, owner.Err
		}
		gv, err := schema.ParseGroupVersion(owner.Doc.APIVersion)
		if err != nil {
			return nil, err
		}
		row, _ := registry.Find(gv.Group, owner.Doc.Kind)
		if owner.Object == nil {
			continue
		}
		holder := owners.HolderOf(owner.Object, owner.Operation, s.name)
		if holder == nil {
			continue
		}
		fields := row.Differences(owner.Object, set, holder.Fields)
		if len(fields) == 0 {
			continue
		}
		sets, err := s.setsOfController(ctx, set)
		if err != nil {
			return nil, err
		}
		if conflicts := row.Conflicts(owner.Object, fields, sets); len(conflicts) > 0 {
			return nil, fmt.Errorf("%s. Resize that first: %s", conflicts[0], conflicts[0].Command(s.namespace))
		}
		found = append(found, disagreement{owner, fields})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("StatefulSet %s/%s: %w", s.namespace, s.name, errAgreed)
	}
	return found, nil
}

// setsOfController returns the opted-in sets that have the controller of the set, with the set itself.
func (s *session) setsOfController(ctx context.Context, set *appsv1.StatefulSet) ([]*appsv1.StatefulSet, error) {
	all := []*appsv1.StatefulSet{set}
	controller := statefulset.Controller(set)
	if controller == nil {
		return all, nil
	}
	err := kube.Pages(ctx, s.client, plan.StatefulSets, s.namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			other := &l.Items[i]
			by := statefulset.Controller(other)
			if by != nil && by.UID == controller.UID && statefulset.Managed(other) && other.UID != set.UID {
				all = append(all, other)
			}
		}
	})
	return all, err
}

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// errAgreed says that there is nothing to change.
var errAgreed = errors.New("no resource stays paused because it disagrees with the claims, so nothing was changed")

// updateOwnerOf is updateOwner after an earlier resize.
func (o *resizing) updateOwnerOf(ctx context.Context, argument string) error {
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	return o.updateOwner(ctx, s)
}

// updateOwner writes the sizes and classes that the claims have after a resize into the custom resource that is paused for it, with the
// rights of the user. pause-owner then ends the pause.
func (o *resizing) updateOwner(ctx context.Context, s *session) error {
	settings := api.Settings{}
	if _, err := s.observeSettings(ctx, o.settings, &settings); err != nil {
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
		fmt.Fprintln(o.Out, o.connection().in(fmt.Sprintf("The pause ends within a minute. Follow it with: kubectl drydock status -n %s sts/%s",
			s.namespace, s.name)))
	}
	return err
}

// disagreement is an owner that stays paused because it says another size or class than the claims.
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

// disagreements returns the owners that are paused for the latest resize of the set, and disagree with its claims. It is an error if there
// is none.
func (s *session) disagreements(ctx context.Context, registry owners.Registry) ([]disagreement, error) {
	set, err := s.managed(ctx)
	if err != nil {
		return nil, err
	}
	record, err := statusOf(set)
	switch {
	case err != nil:
		return nil, err
	case record != nil && record.Phase != api.Succeeded:
		return nil, fmt.Errorf("resize %s of StatefulSet %s/%s is %s, and the resource is changed only after a resize that has succeeded",
			record.Purpose(), s.namespace, s.name, record.Phase)
	case record == nil:
		return nil, fmt.Errorf("StatefulSet %s/%s had no resize. Write the new size after its name", s.namespace, s.name)
	}
	in, err := s.holdingsOf(ctx, s.namespace, s.name)
	if err != nil {
		return nil, err
	}
	var found []disagreement
	for _, owner := range in.Owners {
		if owner.Operation != record.Operation {
			continue
		}
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
		if fields := row.Differences(owner.Object, s.name, record.Templates); len(fields) > 0 {
			found = append(found, disagreement{owner, fields})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("StatefulSet %s/%s: %w", s.namespace, s.name, errAgreed)
	}
	return found, nil
}

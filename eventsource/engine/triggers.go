package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/types"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	"knative.dev/pkg/apis"
	"sigs.k8s.io/yaml"
)

// LoadTriggers reads the files */triggers.yaml, and validates each Trigger with the code of Knative's webhook.
func LoadTriggers(files fs.FS) ([]*eventingv1.Trigger, error) {
	names, err := fs.Glob(files, "*/triggers.yaml")
	if err != nil {
		return nil, fmt.Errorf("looking for Triggers: %w", err)
	}
	var triggers []*eventingv1.Trigger
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading Triggers: %w", err)
		}
		trigger := &eventingv1.Trigger{}
		if err := yaml.UnmarshalStrict(text, trigger); err != nil {
			return nil, fmt.Errorf("reading %s, one Trigger a file: %w", name, err)
		}
		if err := completeAndValidate(trigger); err != nil {
			return nil, fmt.Errorf("checking Trigger %s of %s: %w", trigger.Name, path.Dir(name), err)
		}
		triggers = append(triggers, trigger)
	}
	return triggers, nil
}

// completeAndValidate sets the Trigger's defaults, and returns an error if it is invalid. The delivery of a Trigger replaces the Broker's
// delivery completely, so it must be complete. A retry without policy and delay loops without pause (knative.dev/eventing
// pkg/kncloudevents).
func completeAndValidate(t *eventingv1.Trigger) error {
	flags, err := feature.NewFlagsConfigFromMap(map[string]string{})
	if err != nil {
		return fmt.Errorf("making Knative's default features: %w", err)
	}
	ctx := apis.WithinCreate(feature.ToContext(context.Background(), flags))
	t.SetDefaults(ctx)
	if problems := t.Validate(ctx); problems != nil {
		return problems
	}
	d := t.Spec.Delivery
	if d == nil || d.Retry == nil || d.BackoffPolicy == nil || d.BackoffDelay == nil || d.Timeout == nil || d.DeadLetterSink == nil {
		return errors.New("spec.delivery needs retry, backoffPolicy, backoffDelay, timeout and deadLetterSink")
	}
	for _, filter := range t.Spec.Filters {
		if len(filter.Any) > 0 {
			return errors.New(`spec.filters uses "any", which races in Knative's broker filter (subscriptionsapi/any_filter.go). Write ` +
				`one cesql with OR`)
		}
	}
	if t.Kind != "Trigger" || t.Name == "" || t.Namespace == "" {
		return errors.New("the manifest must have kind Trigger, a name and a namespace")
	}
	t.UID = types.UID("standalone-" + t.Name)
	return nil
}

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

// LoadTriggers reads the files */triggers.yaml and checks each Trigger with the code of Knative's webhook.
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
		if err := check(trigger); err != nil {
			return nil, fmt.Errorf("checking Trigger %s of %s: %w", trigger.Name, path.Dir(name), err)
		}
		triggers = append(triggers, trigger)
	}
	return triggers, nil
}

// check completes the Trigger and says what is wrong with it. A Trigger's delivery replaces the Broker's as a whole, so
// it has to be whole; a retry without policy and delay is a loop without pause (knative.dev/eventing pkg/kncloudevents).
func check(t *eventingv1.Trigger) error {
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
			return errors.New(`spec.filters uses "any", which races in Knative's broker filter (subscriptionsapi/any_filter.go); write one cesql with OR`)
		}
	}
	if t.Kind != "Trigger" || t.Name == "" || t.Namespace == "" {
		return errors.New("want kind Trigger with name and namespace")
	}
	t.UID = types.UID("standalone-" + t.Name)
	return nil
}

package command

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

const (
	ownPrefix    = "dev.drydock."
	sourcePrefix = "dev.knative.apiserver."
)

// typeNames returns all event types without their prefixes.
func typeNames() []string {
	var names []string
	for _, t := range append(events.OwnTypes(), events.SourceTypes()...) {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(t, ownPrefix), sourcePrefix))
	}
	return names
}

// resolveType returns the full event type for a name with or without its prefix.
func resolveType(name string) (string, error) {
	all := append(events.OwnTypes(), events.SourceTypes()...)
	for _, prefix := range []string{"", ownPrefix, sourcePrefix} {
		if slices.Contains(all, prefix+name) {
			return prefix + name, nil
		}
	}
	return "", fmt.Errorf("there is no event type %q. The types are %s", name, strings.Join(typeNames(), ", "))
}

// wakeable are the functions that object.changed can wake.
var wakeable = []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout, api.CleanupPod, api.ScaleFunction,
	api.GrowVolumes}

// parseConcerns returns the functions that an event of type object.changed wakes. Other types must not name functions.
func parseConcerns(eventType, text string) ([]api.Function, error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	switch {
	case eventType != events.ObjectChanged && len(names) > 0:
		return nil, fmt.Errorf("--concerns is only for object.changed. Events of type %s go to the functions with a Trigger for them", eventType)
	case eventType == events.ObjectChanged && len(names) == 0:
		return nil, fmt.Errorf("object.changed wakes only the functions that it names. Name them, for example with --concerns %q",
			"backup restore")
	}
	var concerns []api.Function
	for _, name := range names {
		if !slices.Contains(wakeable, api.Function(name)) {
			return nil, fmt.Errorf("object.changed cannot wake a function %q. It can wake %v", name, wakeable)
		}
		concerns = append(concerns, api.Function(name))
	}
	return concerns, nil
}

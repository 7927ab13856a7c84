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

// typeNames are the types as people write them.
func typeNames() []string {
	var names []string
	for _, t := range append(events.Own(), events.Sources()...) {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(t, ownPrefix), sourcePrefix))
	}
	return names
}

// resolveType reads a type, in full or without its prefix.
func resolveType(typed string) (string, error) {
	all := append(events.Own(), events.Sources()...)
	for _, prefix := range []string{"", ownPrefix, sourcePrefix} {
		if slices.Contains(all, prefix+typed) {
			return prefix + typed, nil
		}
	}
	return "", fmt.Errorf("no event type %q; there are %s", typed, strings.Join(typeNames(), ", "))
}

// lookers are the functions that object.changed can wake.
var lookers = []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout, api.CleanupPod, api.ScaleHooks, api.GrowVolumes}

func parseConcerns(eventType, text string) ([]api.Function, error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	switch {
	case eventType != events.ObjectChanged && len(names) > 0:
		return nil, fmt.Errorf("--concerns is for object.changed; %s goes to the functions whose Triggers ask for it", eventType)
	case eventType == events.ObjectChanged && len(names) == 0:
		return nil, fmt.Errorf("object.changed wakes the functions that it names, and it names none; write --concerns %q", "backup restore")
	}
	var concerns []api.Function
	for _, name := range names {
		if !slices.Contains(lookers, api.Function(name)) {
			return nil, fmt.Errorf("no function %q looks at object.changed; there are %v", name, lookers)
		}
		concerns = append(concerns, api.Function(name))
	}
	return concerns, nil
}

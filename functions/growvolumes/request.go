package growvolumes

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// state is how far the request in the resize annotation is.
type state int

const (
	// met: there is none, or the set has what it asks for.
	met state = iota
	// open: detect-resize still has to carry it out or judge it.
	open
	// failed: it is one of grow-volumes, and the storage has not carried it out.
	failed
	// refused: it is one of grow-volumes, and detect-resize refuses it as things are.
	refused
	// blocks: it is the user's, and has to be settled first.
	blocks
)

// busy returns why no resize can begin on the set now; "" if one can.
func (in Input) busy() (api.Reason, error) { return resize.Busy(resize.Input{Observed: in.Observed}) }

// standing returns the targets of the request in the resize annotation, and its state; if it blocks growth, why, and what to do.
func (in Input) standing(memory *api.Growth) (targets map[string]api.Target, is state, why string) {
	text, asked := in.Set.Annotations[api.ResizeAnnotation]
	if !asked {
		return nil, met, ""
	}
	records := operation.Of(in.Set)
	wish, reason, err := resize.Want(resize.Input{Observed: in.Observed})
	own := text == memory.Request
	switch {
	case err != nil || reason == api.InProgress:
		return nil, open, ""
	case wish != nil && !resize.Refuses(records.Resize, text):
		return nil, open, "" // it begins with the next tick
	case wish != nil && own: // it is judged again with each tick
		return in.targets(text), refused, fmt.Sprintf("the request %s=%s was refused (%s). It begins by itself when the cause is gone",
			api.ResizeAnnotation, text, records.Resize.Reason)
	case wish != nil:
		return nil, blocks, fmt.Sprintf("the request %s=%s was refused (%s). Remove its cause, or remove the request", api.ResizeAnnotation, text,
			records.Resize.Reason)
	case reason == api.AlreadyRefused && own && records.Resize.Kind == api.KindResize && records.RestingCleanup(in.Set) == nil:
		return in.targets(text), failed, ""
	case reason == api.AlreadyRefused:
		return nil, blocks, fmt.Sprintf("the request %s=%s has failed or was rolled back. Retry it with %s, or remove the request", api.ResizeAnnotation,
			text, api.RetryAnnotation)
	}
	return in.replaceable(text)
}

// replaceable reports whether growth may replace a request that is met by its own.
func (in Input) replaceable(text string) (targets map[string]api.Target, is state, why string) {
	request, err := api.ParseRequest(text)
	switch manager := statefulset.AppliedBy(in.Set, api.ResizeAnnotation); {
	case err != nil:
		return nil, open, "" // detect-resize says so
	case request.Auto:
		return nil, blocks, fmt.Sprintf("%s=%s makes the claims follow the templates, and growth does not replace it. Remove the annotation", api.ResizeAnnotation, text)
	case manager != "" && exact(request):
		return nil, blocks, fmt.Sprintf("%s applies %s=%s from a manifest, which would shrink them again. Remove it from the manifest, or write "+
			"a + after each size", manager, api.ResizeAnnotation, text)
	}
	return in.targets(text), met, ""
}

func exact(request api.Request) bool {
	for _, target := range request.Targets {
		if target.Exact {
			return true
		}
	}
	return false
}

// targets returns those of the request whose templates the set has. They are met, or growth's own, so that only their sizes count.
func (in Input) targets(text string) map[string]api.Target {
	request, err := api.ParseRequest(text)
	if err != nil {
		return nil
	}
	known := map[string]api.Target{}
	for template, target := range request.Targets {
		if statefulset.Template(in.Set, template) != nil {
			known[template] = target
		}
	}
	return known
}

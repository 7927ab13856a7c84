package growvolumes

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// inactiveReason returns why the set does not grow, whatever the usage of its volumes. It returns "" if the set may grow.
func (in Input) inactiveReason() api.Reason {
	if reason, _ := in.busyReason(); reason != "" {
		return reason
	}
	if !in.Enabled {
		return api.NoGrowth
	}
	return ""
}

// requestState is the state of the request in the resize annotation.
type requestState int

const (
	// requestMet means that there is no request, or that the set meets it.
	requestMet requestState = iota
	// requestOpen means that detect-resize has yet to judge the request or carry it out.
	requestOpen
	// requestFailed means that a request of grow-volumes has failed, because the storage did not carry it out.
	requestFailed
	// requestRefused means that detect-resize refuses a request of grow-volumes at present.
	requestRefused
	// requestBlocks means that a request of the user was refused or has failed. Growth waits until the user resolves it.
	requestBlocks
)

// busyReason returns why no resize can begin on the set now; "" if a resize can begin.
func (in Input) busyReason() (api.Reason, error) {
	return resize.Busy(resize.Input{Observed: in.Observed})
}

// currentRequest returns the targets of the request in the resize annotation, and its state. If it was refused or blocks growth, why is the
// reason with an instruction for the user.
func (in Input) currentRequest(growth *api.Growth) (targets map[string]api.Target, state requestState, why string) {
	request, requested := in.Set.Annotations[api.ResizeAnnotation]
	if !requested {
		return in.replaceable("")
	}
	records := operation.Of(in.Set)
	pending, reason, err := resize.NeededChanges(resize.Input{Observed: in.Observed})
	own := request == growth.Request
	switch {
	case err != nil || reason == api.InProgress:
		return nil, requestOpen, ""
	case pending != nil && !resize.IsRefusalOf(records.Resize, request):
		return nil, requestOpen, "" // the resize begins with the next tick
	case pending != nil && own: // detect-resize judges it again at each tick
		return in.targets(request), requestRefused, fmt.Sprintf("the request %s=%s was refused (%s). It begins by itself when the cause "+
			"is gone", api.ResizeAnnotation, request, records.Resize.Reason)
	case pending != nil:
		return nil, requestBlocks, fmt.Sprintf("the request %s=%s was refused (%s). Remove its cause, or remove the request",
			api.ResizeAnnotation, request, records.Resize.Reason)
	case reason == api.AlreadyRefused && own && records.Resize.Kind == api.KindResize && records.CleanupAwaitingRetry(in.Set) == nil:
		return in.targets(request), requestFailed, ""
	case reason == api.AlreadyRefused:
		return nil, requestBlocks, fmt.Sprintf("the request %s=%s has failed or was rolled back. Retry it with %s, or remove the "+
			"request", api.ResizeAnnotation, request, api.RetryAnnotation)
	}
	return in.replaceable(request)
}

// replaceable returns the targets of a request that is met. An empty text is no request. It reports the state requestBlocks if growth must
// not write another request.
func (in Input) replaceable(text string) (targets map[string]api.Target, state requestState, why string) {
	request, err := api.ParseRequest(text)
	switch applied, source := statefulset.ManifestText(in.Set, api.ResizeAnnotation); {
	case hasExactSize(applied):
		return nil, requestBlocks, fmt.Sprintf("%s=%s comes from %s and can be written again, which would shrink the volumes. Remove it "+
			"from the manifest and the StatefulSet, or write a + after each size", api.ResizeAnnotation, applied, source)
	case text == "":
		return nil, requestMet, ""
	case err != nil:
		return nil, requestOpen, "" // detect-resize reports the error
	case request.Auto:
		return nil, requestBlocks, fmt.Sprintf("%s=%s makes the claims follow the templates, and growth does not replace it. "+
			"Remove the annotation", api.ResizeAnnotation, text)
	}
	return in.targets(text), requestMet, ""
}

// hasExactSize reports whether the text is a request for an exact size of a template.
func hasExactSize(text string) bool {
	request, err := api.ParseRequest(text)
	if err != nil {
		return false
	}
	for _, target := range request.Targets {
		if target.Exact {
			return true
		}
	}
	return false
}

// targets returns the request's targets for templates that the set has. Only their sizes matter, because the request is met or was written
// by grow-volumes.
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

package growvolumes

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// inactiveReason returns why the set does not grow, whatever the usage of its volumes. It returns "" if the set may grow.
func (in Input) inactiveReason() api.Reason {
	if reason, _ := resize.Busy(resize.Input{Observed: in.Observed}); reason != "" {
		return reason
	}
	if !in.Enabled || statefulset.Replicas(in.Set) == 0 {
		return api.NoGrowth
	}
	return ""
}

// resizeState is the state of what the set requests: of the user's request first, then of the floors of growth.
type resizeState int

const (
	// nothingOpen means that the set fulfils the request and the floors.
	nothingOpen resizeState = iota
	// resizeOpen means that detect-resize has yet to judge the request or the floors, or to carry them out.
	resizeOpen
	// growthFailed means that the storage has not carried out the latest growth.
	growthFailed
	// growthRefused means that detect-resize refuses the latest growth at present.
	growthRefused
	// requestBlocks means that the user's request was refused or has failed. Growth waits until the user resolves it.
	requestBlocks
)

// resizeState returns the state. If growth is open, refused or blocked, the text says why, with an instruction for the user.
func (in Input) resizeState() (resizeState, string) {
	request, _ := api.RequestOf(in.Set)
	record := operation.Of(in.Set).Resize
	pending, reason, err := resize.NeededChanges(resize.Input{Observed: in.Observed})
	switch {
	case err != nil: // detect-resize reports it
		return resizeOpen, ""
	case pending == nil && reason == api.AlreadyRefused:
		return requestBlocks, fmt.Sprintf("the requested change to %s has failed or was rolled back. Retry it with %s, or change what is requested",
			request, operation.RetryCommand(in.Set))
	case pending != nil && pending.GrowTo == "" && resize.IsRefusalOf(record, in.Set) && !record.IsGrowth():
		return requestBlocks, fmt.Sprintf("the requested change to %s was refused (%s). Remove its cause, or change what is requested",
			request, record.Reason)
	case pending != nil && pending.GrowTo == "":
		return resizeOpen, ""
	case pending != nil && resize.IsRefusalOf(record, in.Set): // detect-resize judges it again at each tick
		return growthRefused, fmt.Sprintf("the growth to %s was refused (%s). It begins by itself when the cause is gone", pending.GrowTo,
			record.Reason)
	case pending != nil:
		return resizeOpen, fmt.Sprintf("the growth to %s has not begun yet. Find the cause: kubectl describe -n %s sts/%s", pending.GrowTo,
			in.Set.Namespace, in.Set.Name)
	case world.GrowthFailed(in.Set, record):
		return growthFailed, ""
	}
	return nothingOpen, ""
}

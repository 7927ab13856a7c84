package command

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// hasEnded reports whether the requested resize or rollback of the set has ended, and returns an error if it did not succeed. It is called
// without the claims of the set if the user may not read them.
func hasEnded(in *world.Observed, complete bool) (ended bool, err error) {
	record, err := in.Record()
	if err != nil {
		return false, err
	}
	begins, err := willBegin(in, record, complete)
	switch {
	case err != nil:
		return true, err
	case record.Active() || begins:
		return false, nil
	case record == nil || record.Phase == api.Succeeded:
		return true, nil
	}
	return true, fmt.Errorf("StatefulSet %s/%s: operation %s is %s: %s", in.Set.Namespace, in.Set.Name, record.Operation, record.Phase,
		causeOf(record.Head()))
}

// willBegin reports whether Drydock will begin a resize or a rollback, or refuse it, because of the annotations of the set. A manifest can
// keep its request for good: a request that the set already matches begins nothing.
func willBegin(in *world.Observed, record *api.Resize, complete bool) (bool, error) {
	request, requested := api.RequestOf(in.Set)
	if resize.RequestedRollback(in.Set, record) != "" {
		return statefulset.Managed(in.Set), nil
	}
	changes, reason, err := resize.NeededChanges(resize.Input{Observed: in})
	switch {
	case !requested && changes == nil || reason == api.NotManaged || reason == api.SetGone:
		return false, nil
	case err != nil:
		return false, err
	case requested && world.Answered(record, request), resize.IsRefusalOf(record, in.Set):
		return operation.Of(in.Set).ResizeRetried(in.Set), nil
	case record != nil && record.Request == request:
		return complete && changes != nil && len(changes.Problems) == 0, nil // it succeeded, and applies to claims that were added later
	}
	return !complete || reason != api.UpToDate, nil
}

// resizeOutcome is the outcome of the resize that one command has requested. Another operation on the set says nothing about it.
type resizeOutcome struct {
	request string
	former  string // the operation before the request, or ""
}

// hasEnded reports whether the resize has ended, and returns an error if it did not succeed or was never begun.
func (o resizeOutcome) hasEnded(in *world.Observed, complete bool) (bool, error) {
	record, err := in.Record()
	if err != nil {
		return false, err
	}
	other := record != nil && record.Operation != o.former && (record.Request != o.request || record.IsRollback() || record.IsGrowth())
	begun := record != nil && record.Operation != o.former && !other
	present, requested := api.RequestOf(in.Set)
	switch {
	case begun:
	case other && record.IsGrowth() && record.Request == o.request:
		return true, nil // a growth by usage begins only if the set fulfils the request
	case !requested:
		return true, o.lost(in, "was withdrawn")
	case present != o.request:
		return true, o.lost(in, "was replaced by "+text.Printable(present))
	case other && !record.Active() && record.IsRollback():
		return true, o.lost(in, "was rolled back by operation "+record.Operation)
	}
	return hasEnded(in, complete)
}

// lost returns the error for a request that has no effect any more.
func (o resizeOutcome) lost(in *world.Observed, how string) error {
	return fmt.Errorf("StatefulSet %s/%s: the request %s %s before its resize ended. See what runs with: kubectl drydock status -n %s sts/%s",
		in.Set.Namespace, in.Set.Name, o.request, how, in.Set.Namespace, in.Set.Name)
}

package plan

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
)

// Failure is a write that the API server rejected, or failed to carry out. The cause of the latter may be an admission webhook that does
// not answer.
type Failure struct {
	Action Action
	Plan   api.Reason // of the plan with the write
	Err    error
}

// Failures are the failed writes of one event, in their order.
type Failures []Failure

// Last returns the error of the latest write, or nil.
func (f Failures) Last() error {
	if len(f) == 0 {
		return nil
	}
	return f[len(f)-1].Err
}

// Rejected returns the latest rejection, or the zero value without an error.
func (f Failures) Rejected() Failure {
	for _, one := range slices.Backward(f) {
		if fault.IsPermanent(one.Err) {
			return one
		}
	}
	return Failure{}
}

// Of returns why the latest failed write to the object failed, or nil.
func (f Failures) Of(resource Resource, name string) error {
	for _, one := range slices.Backward(f) {
		if one.Action.Resource == resource && one.Action.Name == name {
			return one.Err
		}
	}
	return nil
}

// OfKind returns the latest failure of a write to an object of the kind, or the zero value without an error.
func (f Failures) OfKind(resource Resource) Failure {
	for _, one := range slices.Backward(f) {
		if one.Action.Resource == resource {
			return one
		}
	}
	return Failure{}
}

// Has reports whether the same write has failed before.
func (f Failures) Has(action Action) bool {
	return slices.ContainsFunc(f, func(one Failure) bool {
		return one.Action.Verb == action.Verb && one.Action.Resource == action.Resource && one.Action.Name == action.Name
	})
}

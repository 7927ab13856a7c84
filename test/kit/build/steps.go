package build

import (
	"encoding/json"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// CheckStep returns an error if the patch of the function stores a record that is no valid next step of the set's present record, according
// to operation.States and operation.MemberStates. A record of another set, or an unreadable record, counts as no record.
func CheckStep(by api.Function, set *appsv1.StatefulSet, patch plan.Action) error {
	records := operation.Of(set)
	for key, before := range map[string]operation.Record{
		api.StatusAnnotation: records.Resize, api.SleepAnnotation: records.Sleep, api.CleanupAnnotation: records.Cleanup,
		api.ScaleAnnotation: records.Scale,
	} {
		for _, op := range patch.Ops {
			text, written := op.Value.(string)
			if !written || op.Path != "/metadata/annotations/"+strings.ReplaceAll(key, "/", "~1") {
				continue
			}
			after := &api.Header{}
			if err := json.Unmarshal([]byte(text), after); err != nil {
				return err
			}
			if err := checkStep(by, headOf(before), after); err != nil {
				return err
			}
			if err := wrongMembers(records.Resize, key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongMembers returns an error if a member of the resize makes an invalid step.
func wrongMembers(before *api.Resize, key, text string) error {
	if key != api.StatusAnnotation {
		return nil
	}
	after := &api.Resize{}
	if err := json.Unmarshal([]byte(text), after); err != nil {
		return err
	}
	return checkMemberSteps(before, after)
}

// headOf returns the header of the record, or nil.
func headOf(record operation.Record) *api.Header {
	switch r := record.(type) {
	case *api.Resize:
		if r != nil {
			return &r.Header
		}
	case *api.Sleep:
		if r != nil {
			return &r.Header
		}
	case *api.Cleanup:
		if r != nil {
			return &r.Header
		}
	case *api.Scale:
		if r != nil {
			return &r.Header
		}
	}
	return nil
}

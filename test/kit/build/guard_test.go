package build

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

func TestCheckStep(t *testing.T) {
	head := func(kind api.Kind, operation string, phase api.Phase) *api.Header {
		return &api.Header{Kind: kind, Operation: operation, Phase: phase}
	}
	for name, row := range map[string]struct {
		before, after *api.Header
		allowed       bool
	}{
		"a first operation begins":            {nil, head(api.KindSleep, "1", api.Planned), true},
		"an operation begins in the middle":   {nil, head(api.KindSleep, "1", api.Stopping), false},
		"a second operation begins":           {head(api.KindSleep, "1", api.Succeeded), head(api.KindSleep, "2", api.Planned), true},
		"a second begins before the end":      {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "2", api.Planned), false},
		"a rollback follows a resize":         {head(api.KindResize, "1", api.Succeeded), head(api.KindRollback, "2", api.Planned), true},
		"a resize becomes a rollback":         {head(api.KindResize, "1", api.Moving), head(api.KindRollback, "1", api.Finishing), false},
		"a phase follows":                     {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Waking), true},
		"the record changes within its phase": {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Asleep), true},
		"an earlier phase returns":            {head(api.KindSleep, "1", api.Waking), head(api.KindSleep, "1", api.Planned), false},
		"a phase of another kind":             {head(api.KindSleep, "1", api.Asleep), head(api.KindSleep, "1", api.Moving), false},
		"a failed cleanup continues":          {head(api.KindCleanup, "1", api.Failed), head(api.KindCleanup, "1", api.Cleaning), false},
		"a failed resize continues":           {head(api.KindResize, "1", api.Failed), head(api.KindResize, "1", api.Moving), false},
		"a resize reverts":                    {head(api.KindResize, "1", api.Moving), head(api.KindResize, "1", api.Reverting), true},
		"a reverting resize continues":        {head(api.KindResize, "1", api.Reverting), head(api.KindResize, "1", api.Moving), false},
		"a reverting resize has moved all":    {head(api.KindResize, "1", api.Reverting), head(api.KindResize, "1", api.Finishing), true},
		"a rollback cannot expand":            {nil, head(api.KindRollback, "1", api.Expanding), false},
	} {
		if err := checkPhases(row.before, row.after); (err == nil) != row.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
	begins := head(api.KindSleep, "1", api.Planned)
	if err := checkStep(api.PauseOwner, head(api.KindSleep, "0", api.Succeeded), begins); err == nil {
		t.Error("pause-owner begins a sleep")
	}
	if err := checkStep(api.IdleTimeout, head(api.KindSleep, "0", api.Succeeded), begins); err != nil {
		t.Error(err)
	}
	if err := checkStep(api.PauseOwner, begins, head(api.KindSleep, "1", api.Stopping)); err != nil {
		t.Error(err)
	}
}

func TestCheckMemberSteps(t *testing.T) {
	at := func(operation string, phase api.Phase, member api.MemberPhase) *api.Resize {
		r := &api.Resize{Members: []api.Member{{Ordinal: 1, Phase: member}}}
		r.Operation, r.Phase = operation, phase
		return r
	}
	for name, row := range map[string]struct {
		before, after *api.Resize
		allowed       bool
	}{
		"the first record":              {nil, at("1", api.Moving, api.MemberPending), true},
		"another operation":             {at("1", api.Failed, api.MemberKept), at("2", api.Planned, api.MemberPending), true},
		"the phase stays the same":      {at("1", api.Moving, api.MemberWaiting), at("1", api.Moving, api.MemberWaiting), true},
		"a stop after the copy":         {at("1", api.Moving, api.MemberWaiting), at("1", api.Moving, api.MemberStopping), true},
		"a stop without a copy":         {at("1", api.Moving, api.MemberPending), at("1", api.Moving, api.MemberStopping), false},
		"a start without a swap":        {at("1", api.Moving, api.MemberFinalPass), at("1", api.Moving, api.MemberStarting), false},
		"moved without a start":         {at("1", api.Moving, api.MemberSwapping), at("1", api.Moving, api.MemberMoved), false},
		"a claim lost during the start": {at("1", api.Moving, api.MemberStarting), at("1", api.Moving, api.MemberSwapping), true},
		"moved twice":                   {at("1", api.Moving, api.MemberMoved), at("1", api.Moving, api.MemberCopying), false},
		"reverted before its stop":      {at("1", api.Reverting, api.MemberCopying), at("1", api.Reverting, api.MemberKept), true},
		"reverted during the swap":      {at("1", api.Reverting, api.MemberSwapping), at("1", api.Reverting, api.MemberMoved), true},
		"stopped while reverting":       {at("1", api.Reverting, api.MemberWaiting), at("1", api.Reverting, api.MemberStopping), false},
		"not ready":                     {at("1", api.Moving, api.MemberStarting), at("1", api.Reverting, api.MemberMoved), true},
	} {
		if err := checkMemberSteps(row.before, row.after); (err == nil) != row.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSentenceBeginsWithOr(t *testing.T) {
	note := func(message string) plan.Action { return plan.Event("shop", "web", plan.Note{Message: message}) }
	record := func(message string) plan.Action {
		return plan.Action{Ops: []plan.Op{{Op: "add", Path: "/metadata/annotations/a", Value: string(JSON(api.Header{Message: message}))}}}
	}
	for message, want := range map[string]bool{
		"Or delete the pod.":                        true,
		"The pod is in use. Or delete the pod.":     true,
		"The pod is in use: Or delete the pod.":     true,
		"Wait, or delete the pod.":                  false,
		"Pod Or is in use. Order another. For Orca": false,
	} {
		for _, a := range []plan.Action{note(message), record(message)} {
			if got := orphanedSentence(a); (got != "") != want {
				t.Errorf("%s: %q", a, got)
			}
		}
	}
}

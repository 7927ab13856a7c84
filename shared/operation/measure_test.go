package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestWriteMeasuresWhatItEnds: each figure belongs to one write, so that no repeated event counts twice.
func TestWriteMeasuresWhatItEnds(t *testing.T) {
	at := func(seconds int) time.Time { return build.Now.Add(time.Duration(seconds) * time.Second) }
	member := func(phase api.MemberPhase, change func(*api.Member)) *api.Resize {
		return build.Operation(api.Moving, build.Members(phase, "data-web-0", "logs-web-0"), func(r *api.Resize) {
			m := &r.Members[0]
			m.HeldAt = operation.Moment(build.Now)
			m.Claims[0].BytesDone, m.Claims[1].BytesDone = 1000, 24
			if change != nil {
				change(m)
			}
		})
	}
	ready := func(m *api.Member) { m.ReadyAt = operation.Moment(at(42)) }
	locked := func(m *api.Member) { m.Locked = true }
	ended := operation.ConcludeResize(build.Operation(api.Finishing), api.Succeeded, build.Now)
	other := build.Operation(api.Succeeded, func(r *api.Resize) { r.Operation, r.Finished = "4f3a9c21d0bf", operation.Moment(build.Now) })
	waking := build.Sleep(api.Waking, build.SleepStarted(time.Hour), func(s *api.Sleep) { s.WakingAt = operation.Moment(at(-8)) })
	awake := operation.Conclude(waking, api.Succeeded, build.Now, api.Awake, "")
	awake.ReadyAt = operation.Moment(build.Now)
	atZero := operation.Conclude(waking, api.Succeeded, build.Now, api.AtZeroAlready, "")
	file := golden.Open(t)
	for _, row := range []struct {
		situation    string
		before, next operation.Record
	}{
		{"an operation begins", nil, build.Operation(api.Planned)},
		{"an operation is refused at once", nil, build.Operation(api.Refused)},
		{"another operation has ended before", ended, other},
		{"an operation continues", build.Operation(api.Moving), build.Operation(api.Finishing)},
		{"an operation succeeds", build.Operation(api.Finishing), ended},
		{"an operation fails", build.Operation(api.Reverting), operation.ConcludeResize(build.Operation(api.Reverting), api.Failed, build.Now)},
		{"an operation that has ended is written again", ended, ended},
		{"a copy is verified", member(api.MemberFinalPass, nil), member(api.MemberSwapping, nil)},
		{"a swap of a rollback begins", member(api.MemberStopping, nil), member(api.MemberSwapping, nil)},
		{"a member becomes ready", member(api.MemberStarting, nil), member(api.MemberMoved, ready)},
		{"a member was ready before", member(api.MemberStarting, ready), member(api.MemberMoved, ready)},
		{"a member without a pod becomes ready", member(api.MemberStarting, locked), member(api.MemberMoved, ready)},
		{"a member is kept", member(api.MemberStopping, nil), member(api.MemberKept, nil)},
		{"a set falls asleep", build.Sleep(api.Stopping), build.Sleep(api.Asleep)},
		{"a set is awake", waking, awake},
		{"another process keeps the set at zero", waking, atZero},
	} {
		set := build.Set("web")
		if row.before != nil {
			set.Annotations = map[string]string{row.before.Annotation(): row.before.Encode()}
		}
		file.Entry(t, row.situation, words(operation.Store(set, row.next).Actions()))
	}
}

func words(actions []plan.Action) string {
	var lines []string
	for _, a := range actions {
		for _, m := range a.Measurements {
			lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %g", m.Figure, m.Kind, m.Phase, m.Value)), " "))
		}
	}
	if lines == nil {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

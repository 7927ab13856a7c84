package restore

import (
	"fmt"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// handleFinishing removes the objects of the operation and ends it.
func handleFinishing(in Input, record *api.Resize) plan.Plan {
	remark, p := cleanUp(in, record)
	if remark == "" && p.Kind != "" {
		return p
	}
	if grown := grownByOthers(in, record); len(grown) > 0 {
		next := operation.ConcludeResize(record, api.Failed, in.Now)
		next.Reason = api.ClaimsGrown
		next.Message = fmt.Sprintf("the data is on the new volumes, but another client has made %s larger again than requested, as an operator "+
			"does whose resource has another size. Change the size there, then %s%s", strings.Join(grown, ", "),
			operation.HowToRetry(in.Namespace, record), remark)
		return conclude(in, next, events.OperationFailed)
	}
	next := operation.ConcludeResize(record, api.Succeeded, in.Now)
	next.Reason, next.Message = api.ResizeCompleted, operation.Summary(record, in.Settings.Retention)+remark
	return conclude(in, next, events.RestoreCompleted)
}

// grownByOthers returns the claims that request more now than the operation gave them, because another client has made them larger since.
func grownByOthers(in Input, record *api.Resize) []string {
	var grown []string
	for _, m := range record.Moves() {
		claim := in.Claim(m.Claim)
		if claim == nil || !record.Copies() {
			continue
		}
		if size := statefulset.Requested(claim); size.Cmp(m.To) > 0 {
			grown = append(grown, fmt.Sprintf("claim %s (%s instead of %s)", m.Claim, &size, &m.To))
		}
	}
	return grown
}

// concludeRevert cleans up and ends the operation.
func concludeRevert(in Input, record *api.Resize) plan.Plan {
	remark, p := cleanUp(in, record)
	if remark == "" && p.Kind != "" {
		return p
	}
	next := operation.ConcludeResize(record, api.Failed, in.Now)
	if moved := movedSummary(record); moved != "" {
		next.Message += moved
	}
	next.Message += remark
	return conclude(in, next, events.OperationFailed)
}

// movedSummary returns how many members were moved, if only some were, and how to move the others.
func movedSummary(record *api.Resize) string {
	moved := 0
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			moved++
		}
	}
	if moved == 0 {
		return ""
	}
	if record.GrowsWhileStopped() {
		return fmt.Sprintf("; the volumes of %d of %d members have grown: kubectl drydock retry grows the others", moved,
			len(record.Members))
	}
	return fmt.Sprintf("; %d of %d members are on their new volumes: kubectl drydock retry moves the others, "+
		"kubectl drydock rollback moves these back", moved, len(record.Members))
}

// cleanUp removes the objects of the operation. After the deadline it stops waiting and returns a remark for the message. The journal
// then stays, so that the sweep finds the rest.
func cleanUp(in Input, record *api.Resize) (remark string, p plan.Plan) {
	p, busy := tidy(in, record.Operation, endedClaims(in, record))
	switch {
	case !busy:
		return "", plan.Plan{}
	case p.Kind == plan.KindWait && waitExpired(in, record):
		return "; the remaining objects are removed later: " + p.Detail, p
	}
	return "", p
}

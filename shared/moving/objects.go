package moving

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// How far clocks may differ.
const (
	SkewOfServers  = 10 * time.Second // of two API servers: one may create a claim, the other its volume
	SkewOfFunction = time.Minute      // of a function and an API server
)

// DeleteJobs deletes the Jobs that are not being deleted yet, except the Job with the kept name.
func DeleteJobs(jobs []*batchv1.Job, kept string) []plan.Action {
	var actions []plan.Action
	for _, job := range jobs {
		if job.DeletionTimestamp == nil && job.Name != kept {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return actions
}

// DiscardCopies makes the record name other targets for the member's claims. The data on the present targets does not count any more.
func DiscardCopies(member *api.Member) {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved {
			move.DiscardCopy()
		}
	}
}

// LacksFirstPass reports whether a member that waits to be stopped has no mover, although a mover could copy beside its pod. The member had
// no pod when backup handed it to restore. In contrast, a member whose mover found no room has the node of its pod in the record.
func LacksFirstPass(o *world.Observed, member *api.Member) bool {
	return member.Pod == "" && member.Node == "" && o.MemberPod(member.Ordinal) != nil && resize.NoFirstPass(o, member) == ""
}

// ShouldYield reports whether another member goes before this one in a rolling resize. That happens if a waiting member has become the
// primary since it was chosen, and other members are still pending.
func ShouldYield(o *world.Observed, record *api.Resize, member *api.Member) bool {
	if record.Strategy != api.StrategyRolling || !statefulset.IsPrimary(o.Set, o.MemberPod(member.Ordinal)) {
		return false
	}
	next := resize.NextMember(o, record)
	return next != nil && !statefulset.IsPrimary(o.Set, o.MemberPod(next.Ordinal))
}

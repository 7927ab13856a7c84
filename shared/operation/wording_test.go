package operation_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// TestAskAgainOfARollbackNamesTheCommand: a rollback discards newer data, so the retry annotation must not begin one.
func TestAskAgainOfARollbackNamesTheCommand(t *testing.T) {
	file := golden.Open(t)
	file.Entry(t, "a resize failed", operation.HowToRetry("shop", build.Operation(api.Failed)))
	file.Entry(t, "a rollback failed", operation.HowToRetry("shop", build.Operation(api.Failed, build.RollbackOf("ba9876543210"))))
}

func TestTookTooLongNamesTheLatestObstacle(t *testing.T) {
	file := golden.Open(t)
	for _, reason := range []api.Reason{api.GateClosed, api.MoverStalled, api.StartedByOthers, api.Quiescing} {
		resize := build.Operation(api.Moving, func(r *api.Resize) { r.Reason, r.Message = reason, "the latest message" })
		message := operation.TookTooLong("shop", resize, time.Hour)
		if quotes := strings.Contains(message, "the latest message"); quotes != (reason != api.Quiescing) {
			t.Errorf("%s: %s", reason, message)
		}
		file.Entry(t, "the latest reason is "+string(reason), message)
	}
}

func fields(all ...api.Field) func(*api.Resize) { return func(r *api.Resize) { r.Fields = all } }

func TestSummaryCountsClaimsByOutcome(t *testing.T) {
	size := resource.MustParse("64Mi")
	grown := func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "logs-web-0", To: size}} }
	settled := func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "logs-web-0", From: size, To: size}} }
	otherAttributes := func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "data-web-0", Attributes: new(string)}} }
	moved := build.Members(api.MemberMoved, "data-web-0", "data-web-1")
	inPlace := func(r *api.Resize) {
		for _, move := range r.Moves() {
			move.InPlace = true
		}
	}
	finishing := func(changes ...func(*api.Resize)) *api.Resize { return build.Operation(api.Finishing, changes...) }
	cases := map[string]*api.Resize{
		"only the templates changed": finishing(),
		"a claim grew":               finishing(grown),
		"the volume had the size":    finishing(settled),
		"only the service changed": finishing(fields(api.Field{Name: api.FieldServiceName, Value: "db"}),
			func(r *api.Resize) { r.Templates = nil }),
		"a claim grew and a label was removed": finishing(grown,
			fields(api.Field{Name: api.FieldLabels, Template: "data", Key: "a", Removed: true})),
		"a template was removed":                          finishing(fields(api.Field{Name: api.FieldTemplate, Template: "logs", Removed: true})),
		"claims were copied":                              finishing(moved),
		"a claim grew and others were copied":             finishing(grown, moved),
		"claims grew while their members were stopped":    finishing(moved, inPlace),
		"attributes changed and claims grew when stopped": finishing(moved, inPlace, otherAttributes),
		"a rollback": finishing(moved, build.RollbackOf("ba9876543210")),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		file.Entry(t, name, operation.Summary(cases[name], time.Hour))
	}
}

// TestEndKeepsVolumesAndPhasesOfMembers: an ended record has no fields that only an active resize needs.
func TestEndKeepsVolumesAndPhasesOfMembers(t *testing.T) {
	active := build.Operation(api.Reverting, build.Members(api.MemberMoved, "data-web-0"), build.Due(time.Minute),
		build.MemberDue(0, time.Minute), func(r *api.Resize) {
			r.Reason, r.Message = api.Aborted, "the user aborted it"
			r.Members[0].Stalled, r.Members[0].StalledSince, r.Members[0].ProgressAt = "ImagePullBackOff", operation.Moment(build.Now),
				operation.Moment(build.Now)
		})
	before := active.Encode()
	ended := operation.ConcludeResize(active, api.Failed, build.Now)
	member := ended.Members[0]
	if ended.Deadline != nil || ended.Finished == nil || member.Deadline != nil || member.Stalled != "" || member.StalledSince != nil ||
		member.ProgressAt != nil {
		t.Errorf("%s", ended.Encode())
	}
	if ended.Phase != api.Failed || ended.Reason != api.Aborted || ended.Message != "the user aborted it" ||
		member.Phase != api.MemberMoved || member.Claims[0].NewVolume == "" {
		t.Errorf("%s", ended.Encode())
	}
	if active.Encode() != before {
		t.Error("End changed its argument")
	}
}

func TestRevertedResizeThatSucceedsHasNotFailed(t *testing.T) {
	reverted := operation.Revert(build.Operation(api.Moving, build.Members(api.MemberMoved, "data-web-0")), build.Now, time.Minute,
		api.Aborted, "why")
	ended := operation.ConcludeResize(operation.Enter(reverted, api.Finishing, build.Now, time.Minute), api.Succeeded, build.Now)
	if ended.FailedAt != "" || ended.Phase != api.Succeeded {
		t.Errorf("%s", ended.Encode())
	}
}

func TestRevertStoresPhaseAndReasonOfTheFailure(t *testing.T) {
	next := operation.Revert(build.Operation(api.Moving), build.Now, time.Minute, api.Aborted, "why")
	if next.Phase != api.Reverting || next.FailedAt != api.Moving || next.Reason != api.Aborted || next.Message != "why" ||
		!next.Deadline.Time.Equal(build.Now.Add(time.Minute)) {
		t.Errorf("%s", next.Encode())
	}
}

package operation_test

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// The retry annotation, which is about whatever has failed, begins no rollback.
func TestAskAgain(t *testing.T) {
	for want, resize := range map[string]*api.Resize{
		"ask again with the annotation drydock.dev/retry": build.Operation(api.Failed),
		"ask again with kubectl drydock rollback":         build.Operation(api.Failed, build.Rollback("ba9876543210")),
	} {
		if got := operation.AskAgain(resize); got != want {
			t.Errorf("a %s: %s, want %s", resize.Kind, got, want)
		}
	}
}

func TestTookTooLongNamesTheLatestObstacle(t *testing.T) {
	for reason, want := range map[api.Reason]string{
		api.GateClosed:      "the latest message",
		api.MoverStalled:    "the latest message",
		api.StartedByOthers: "the latest message",
		api.Quiescing:       "look at the mover pods",
	} {
		resize := build.Operation(api.Moving, func(r *api.Resize) { r.Reason, r.Message = reason, "the latest message" })
		want = "the members were not moved within 1h0m0s: " + want + ", then ask again with the annotation drydock.dev/retry"
		if got := operation.TookTooLong(resize, time.Hour); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}

func fields(all ...api.Field) func(*api.Resize) { return func(r *api.Resize) { r.Fields = all } }

func TestSummaryCountsClaimsByWhatHasBecomeOfThem(t *testing.T) {
	grown := func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "logs-web-0"}} }
	moved := build.Members(api.MemberMoved, "data-web-0", "data-web-1")
	inPlace := func(r *api.Resize) {
		for _, move := range r.Moves() {
			move.InPlace = true
		}
	}
	for want, resize := range map[string]*api.Resize{
		"the set has its new templates": build.Operation(api.Finishing),
		"1 claims have grown":           build.Operation(api.Finishing, grown),
		"the set was created again with the changes serviceName=db; each pod that runs gets its name in the new service when it is started again": build.Operation(
			api.Finishing, fields(api.Field{Name: api.FieldServiceName, Value: "db"}), func(r *api.Resize) { r.Templates = nil }),
		"1 claims have grown; the set was created again with the changes data/labels/a-; claims that exist keep their labels and annotations": build.Operation(
			api.Finishing, grown, fields(api.Field{Name: api.FieldLabels, Template: "data", Key: "a", Removed: true})),
		"the set has its new templates; the set was created again with the changes -logs; the claims of template logs are kept, and pods that run keep " +
			"their volumes": build.Operation(api.Finishing, fields(api.Field{Name: api.FieldTemplate, Template: "logs", Removed: true})),
		"2 claims are on new volumes; the old volumes are kept for 1h0m0s": build.Operation(api.Finishing, moved),
		"1 claims have grown, 2 are on new volumes; the old volumes are kept for 1h0m0s": build.Operation(api.Finishing, grown,
			moved),
		"2 claims have grown while their members were stopped": build.Operation(api.Finishing, moved, inPlace),
		"1 claims have another VolumeAttributesClass, 2 have grown while their members were stopped": build.Operation(api.Finishing, moved, inPlace,
			func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "data-web-0", Attributes: new(string)}} }),
		"2 claims have their old volumes back; those with what was written since are kept for 1h0m0s": build.Operation(api.Finishing, moved,
			build.Rollback("ba9876543210")),
	} {
		if got := operation.Summary(resize, time.Hour); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// An ended record keeps what a later reader needs: the volumes, and where each member stands.
func TestEndRemovesWhatOnlyAnActiveResizeNeeds(t *testing.T) {
	active := build.Operation(api.Reverting, build.Members(api.MemberMoved, "data-web-0"), build.Due(time.Minute),
		build.MemberDue(0, time.Minute), func(r *api.Resize) {
			r.Reason, r.Message = api.Aborted, "the user gave it up"
			r.Members[0].Stalled, r.Members[0].StalledSince, r.Members[0].ProgressAt = "ImagePullBackOff", operation.Moment(build.Now),
				operation.Moment(build.Now)
		})
	before := active.Encode()
	ended := operation.End(active, api.Failed, build.Now)
	member := ended.Members[0]
	if ended.Deadline != nil || ended.Finished == nil || member.Deadline != nil || member.Stalled != "" || member.StalledSince != nil ||
		member.ProgressAt != nil {
		t.Errorf("%s", ended.Encode())
	}
	if ended.Phase != api.Failed || ended.Reason != api.Aborted || ended.Message != "the user gave it up" ||
		member.Phase != api.MemberMoved || member.Claims[0].NewVolume == "" {
		t.Errorf("%s", ended.Encode())
	}
	if active.Encode() != before {
		t.Error("the end changed the record that it began with")
	}
}

func TestResizeThatSucceedsAfterItWasGivenUpDidNotFail(t *testing.T) {
	reverted := operation.Revert(build.Operation(api.Moving, build.Members(api.MemberMoved, "data-web-0")), build.Now, time.Minute,
		api.Aborted, "why")
	ended := operation.End(operation.Enter(reverted, api.Finishing, build.Now, time.Minute), api.Succeeded, build.Now)
	if ended.FailedAt != "" || ended.Phase != api.Succeeded {
		t.Errorf("%s", ended.Encode())
	}
}

func TestRevertTellsWhereAndWhyTheResizeWasGivenUp(t *testing.T) {
	next := operation.Revert(build.Operation(api.Moving), build.Now, time.Minute, api.Aborted, "why")
	if next.Phase != api.Reverting || next.FailedAt != api.Moving || next.Reason != api.Aborted || next.Message != "why" ||
		!next.Deadline.Time.Equal(build.Now.Add(time.Minute)) {
		t.Errorf("%s", next.Encode())
	}
}

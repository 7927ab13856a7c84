package build

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// Operation builds the status of a resize to 128Mi of set web, which had 3 replicas, begun a minute ago. Change it with
// the options.
func Operation(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	status := &api.Resize{
		Header: api.Header{
			Version: api.RecordVersion, Operation: ID, Kind: api.KindResize, Phase: phase,
			Request: "data=128Mi", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(Now.Add(-time.Minute)),
		},
		Method: api.MethodCopy, Replicas: 3, Round: 1,
		Templates: []api.TemplateTarget{{Name: "data", Size: quantity("128Mi")}},
	}
	for _, option := range options {
		option(status)
	}
	return status
}

// Parts gives the operation claims of 64Mi that go to 128Mi, each in the phase. A copy that is verified is on volume
// pv-new-CLAIM.
func Parts(phase api.ClaimPhase, claims ...string) func(*api.Resize) {
	return func(s *api.Resize) {
		for _, name := range claims {
			template, _, _ := strings.Cut(name, "-")
			part := api.ClaimStatus{Name: name, UID: types.UID("uid-" + name), Template: template, Phase: phase,
				From: quantity("64Mi"), To: quantity("128Mi"), OldVolume: "pv-" + name}
			if phase == api.ClaimVerified || phase == api.ClaimSwitched {
				part.NewVolume = "pv-new-" + name
			}
			s.Claims = append(s.Claims, part)
		}
	}
}

// Genuine gives the operation the id that Drydock derives for it. Do it last.
func Genuine(s *api.Resize) {
	request := s.Request
	if s.RollsBack != "" {
		request = api.RollbackRequest(s.RollsBack)
	}
	s.Operation = api.OperationID(s.Set.UID, request, s.Attempt)
}

// Stopped says that the set was scaled to zero so long ago.
func Stopped(ago time.Duration) func(*api.Resize) {
	return func(s *api.Resize) {
		s.Stopping = operation.Moment(Now.Add(-ago))
		s.Stopped = s.Stopping
	}
}

// Quiet says that the set was seen to be quiet in the generation.
func Quiet(generation int64) func(*api.Resize) {
	return func(s *api.Resize) {
		Stopped(time.Minute)(s)
		s.Generation, s.Quiesced = generation, s.Stopped
	}
}

// Due sets the deadline of the phase; a negative time is past it.
func Due(in time.Duration) func(*api.Resize) {
	return func(s *api.Resize) { s.Deadline = operation.Moment(Now.Add(in)) }
}

// Round sets the round of copies.
func Round(n int) func(*api.Resize) { return func(s *api.Resize) { s.Round = n } }

// Summary renders what the record of a resize or a sleep says on one line, without its message.
func Summary(record operation.Record) string {
	switch r := record.(type) {
	case *api.Resize:
		if r != nil {
			return summaryOfResize(r)
		}
	case *api.Sleep:
		if r != nil {
			return summaryOfSleep(r)
		}
	}
	return ""
}

func summaryOfResize(s *api.Resize) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.Phase, s.Reason)
	if s.FailedAt != "" {
		fmt.Fprintf(&b, " at %s", s.FailedAt)
	}
	fmt.Fprintf(&b, ", attempt %d, round %d, generation %d, replicas %d", s.Attempt, s.Round, s.Generation, s.Replicas)
	if s.WhenScaled != "" {
		fmt.Fprintf(&b, ", whenScaled %s", s.WhenScaled)
	}
	if s.Deadline != nil {
		fmt.Fprintf(&b, ", due in %s", s.Deadline.Sub(Now))
	}
	for _, c := range s.Claims {
		fmt.Fprintf(&b, "; %s %s", c.Name, c.Phase)
		if c.NewVolume != "" {
			fmt.Fprintf(&b, " on %s", c.NewVolume)
		}
		if c.BytesTotal != 0 {
			fmt.Fprintf(&b, " %d/%d", c.BytesDone, c.BytesTotal)
		}
	}
	return b.String()
}

// Rollback makes the operation a rollback of another one.
func Rollback(of string) func(*api.Resize) {
	return func(s *api.Resize) { s.Kind, s.Method, s.RollsBack = api.KindRollback, "", of }
}

// Stored returns the record of a resize that the plan writes on the set, or nil.
func Stored(p plan.Plan) *api.Resize { return stored(p, api.LoadResize, api.StatusAnnotation) }

// StoredSleep returns the record of a sleep that the plan writes on the set, or nil.
func StoredSleep(p plan.Plan) *api.Sleep { return stored(p, api.LoadSleep, api.SleepAnnotation) }

// StoredRecord returns the record of a resize or a sleep that the plan writes on the set, or nil.
func StoredRecord(p plan.Plan) operation.Record {
	if sleep := StoredSleep(p); sleep != nil {
		return sleep
	}
	return Stored(p)
}

func stored[R any](p plan.Plan, load func(*appsv1.StatefulSet) (*R, error), key string) *R {
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			text, written := op.Value.(string)
			if !written || op.Path != "/metadata/annotations/"+strings.ReplaceAll(key, "/", "~1") {
				continue
			}
			record, err := load(Set(a.Name, Annotation(key, text), UID(string(uidIn(text)))))
			if err != nil {
				panic(err)
			}
			return record
		}
	}
	return nil
}

// uidIn returns the UID of the set that a record is about.
func uidIn(record string) types.UID {
	var head api.Header
	if err := json.Unmarshal([]byte(record), &head); err != nil {
		panic(err)
	}
	return head.Set.UID
}

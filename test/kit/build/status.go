package build

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Operation builds the status of a resize to 128Mi of set web, which had 3 replicas, begun a minute ago. Change it with
// the options.
func Operation(phase api.Phase, options ...func(*api.Status)) *api.Status {
	status := &api.Status{
		Version: api.StatusVersion, Operation: ID, Kind: "Resize", Method: api.MethodCopy, Phase: phase,
		Request: "data=128Mi", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}, Replicas: 3, Round: 1,
		Templates: []api.TemplateTarget{{Name: "data", Size: quantity("128Mi")}},
		Started:   metav1.NewTime(Now.Add(-time.Minute)),
	}
	for _, option := range options {
		option(status)
	}
	return status
}

// Parts gives the operation claims of 64Mi that go to 128Mi, each in the phase. A copy that is verified is on volume
// pv-new-CLAIM.
func Parts(phase api.ClaimPhase, claims ...string) func(*api.Status) {
	return func(s *api.Status) {
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
func Genuine(s *api.Status) {
	request := s.Request
	if s.RollsBack != "" {
		request = api.RollbackRequest(s.RollsBack)
	}
	s.Operation = api.OperationID(s.Set.UID, request, s.Attempt)
}

// Stopped says that the set was scaled to zero so long ago.
func Stopped(ago time.Duration) func(*api.Status) {
	return func(s *api.Status) {
		s.Stopping = plan.Moment(Now.Add(-ago))
		s.Stopped = s.Stopping
	}
}

// Quiet says that the set was seen to be quiet in the generation.
func Quiet(generation int64) func(*api.Status) {
	return func(s *api.Status) {
		Stopped(time.Minute)(s)
		s.Generation, s.Quiesced = generation, s.Stopped
	}
}

// Due sets the deadline of the phase; a negative time is past it.
func Due(in time.Duration) func(*api.Status) {
	return func(s *api.Status) { s.Deadline = plan.Moment(Now.Add(in)) }
}

// Round sets the round of copies.
func Round(n int) func(*api.Status) { return func(s *api.Status) { s.Round = n } }

// Summary renders what a status says on one line, without its message.
func Summary(s *api.Status) string {
	if s == nil {
		return ""
	}
	if s.Kind == api.KindSleep {
		return summarize(s)
	}
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

// Stored returns the status document, or that of a sleep, that the plan writes on the set, or nil.
func Stored(p plan.Plan) *api.Status {
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			text, ok := op.Value.(string)
			load, key := api.LoadStatus, api.StatusAnnotation
			if strings.HasSuffix(op.Path, "/drydock.dev~1sleep") {
				load, key = api.LoadSleep, api.SleepAnnotation
			} else if !strings.HasSuffix(op.Path, "/drydock.dev~1status") {
				continue
			}
			if !ok { // it is removed
				continue
			}
			status, err := load(Set("web", Annotation(key, text)))
			if err != nil {
				panic(err)
			}
			return status
		}
	}
	return nil
}

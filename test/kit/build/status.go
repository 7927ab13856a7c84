package build

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// Growth makes the operation a growth by usage, of a set without a request.
func Growth(floors string) func(*api.Resize) {
	return func(r *api.Resize) { r.Request, r.GrowTo = "", floors }
}

// Operation builds the record of a resize of set web to 128Mi, which began a minute ago.
func Operation(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	record := &api.Resize{
		Header: api.Header{
			Version: api.RecordVersion, Operation: ID, Kind: api.KindResize, Phase: phase,
			Request: "data=128Mi", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(Now.Add(-time.Minute)),
		},
		Strategy:  api.StrategyWhole,
		Templates: []api.TemplateTarget{{Name: "data", Size: quantity("128Mi")}},
	}
	for _, option := range options {
		option(record)
	}
	return record
}

// Rolling sets the strategy: the members stop one after the other.
func Rolling(r *api.Resize) { r.Strategy = api.StrategyRolling }

// ReplacesSet changes the templates from 64Mi to 128Mi. For that the set must be created again.
func ReplacesSet(r *api.Resize) {
	r.ReplaceSet = true
	for _, t := range r.Templates {
		r.Before = append(r.Before, api.TemplateTarget{Name: t.Name, Size: quantity("64Mi")})
	}
}

// Members adds claims that are resized from 64Mi to 128Mi, as members in the phase. Claims with the same ordinal belong to one member. The
// verified copy of a claim is on volume pv-new-CLAIM.
func Members(phase api.MemberPhase, claims ...string) func(*api.Resize) {
	return func(r *api.Resize) {
		for _, name := range claims {
			template, _, _ := strings.Cut(name, "-")
			move := api.Move{Claim: name, UID: types.UID("uid-" + name), Template: template, From: quantity("64Mi"),
				To: quantity("128Mi"), OldVolume: "pv-" + name}
			switch phase {
			case api.MemberSwapping, api.MemberStarting, api.MemberMoved:
				move.NewVolume, move.Verified = "pv-new-"+name, true
			case api.MemberGrowing:
				move.InPlace = true
			}
			ordinal := ordinalOf(name)
			if r.Member(ordinal) == nil {
				r.Members = append(r.Members, Member(ordinal, phase))
			}
			member := r.Member(ordinal)
			member.Claims = append(member.Claims, move)
		}
	}
}

// Member builds a member without claims. It is copied beside pod web-ORDINAL, or was held ten seconds ago, as the phase
// requires.
func Member(ordinal int, phase api.MemberPhase) api.Member {
	m := api.Member{Ordinal: ordinal, Phase: phase}
	if phase != api.MemberPending {
		m.Attempt, m.Pod, m.Node = 1, types.UID(fmt.Sprintf("uid-web-%d", ordinal)), NodeName
	}
	switch phase {
	case api.MemberStopping:
		m.HeldAt = operation.Moment(Now.Add(-10 * time.Second))
	case api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping:
		m.HeldAt, m.StoppedAt = operation.Moment(Now.Add(-10*time.Second)), operation.Moment(Now.Add(-5*time.Second))
	case api.MemberStarting, api.MemberMoved:
		m.HeldAt, m.StoppedAt = operation.Moment(Now.Add(-10*time.Second)), operation.Moment(Now.Add(-5*time.Second))
		m.ReleasedAt = operation.Moment(Now.Add(-time.Second))
	}
	if m.HeldAt != nil {
		m.Stops = 1
	}
	return m
}

// EditMember changes the member with the ordinal.
func EditMember(ordinal int, change func(*api.Member)) func(*api.Resize) {
	return func(r *api.Resize) { change(r.Member(ordinal)) }
}

// MemberDue sets the deadline of the member's phase from Now. A negative time has passed.
func MemberDue(ordinal int, in time.Duration) func(*api.Resize) {
	return EditMember(ordinal, func(m *api.Member) { m.Deadline = operation.Moment(Now.Add(in)) })
}

func ordinalOf(claim string) int {
	ordinal, err := strconv.Atoi(claim[strings.LastIndex(claim, "-")+1:])
	if err != nil {
		panic(err)
	}
	return ordinal
}

// DerivedID sets the id that Drydock derives for the operation. It must be the last option.
func DerivedID(s *api.Resize) {
	request := s.Request
	if s.RollsBack != "" {
		request = api.RollbackRequest(s.RollsBack)
	}
	s.Operation = api.OperationID(s.Set.UID, request, s.Attempt)
}

// Due sets the deadline of the phase from Now. A negative time has passed.
func Due(in time.Duration) func(*api.Resize) {
	return func(s *api.Resize) { s.Deadline = operation.Moment(Now.Add(in)) }
}

// RollbackOf turns the operation into a rollback of another operation.
func RollbackOf(of string) func(*api.Resize) {
	return func(s *api.Resize) { s.Kind, s.RollsBack = api.KindRollback, of }
}

// Stored returns the record of a resize that the plan writes on the set, or nil.
func Stored(p plan.Plan) *api.Resize { return stored(p, api.LoadResize, api.StatusAnnotation) }

// StoredSleep returns the record of a sleep that the plan writes on the set, or nil.
func StoredSleep(p plan.Plan) *api.Sleep { return stored(p, api.LoadSleep, api.SleepAnnotation) }

// StoredCleanup returns the record of a cleanup that the plan writes on the set, or nil.
func StoredCleanup(p plan.Plan) *api.Cleanup {
	return stored(p, api.LoadCleanup, api.CleanupAnnotation)
}

// StoredScale returns the record of a scaling that the plan writes on the set, or nil.
func StoredScale(p plan.Plan) *api.Scale { return stored(p, api.LoadScale, api.ScaleAnnotation) }

// StoredLedger returns the ledger that the plan writes on the set, or nil.
func StoredLedger(p plan.Plan) *api.Ledger {
	return stored(p, func(set *appsv1.StatefulSet) (*api.Ledger, error) { return api.LoadLedger(set), nil }, api.LedgerAnnotation)
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

// uidIn returns the set's UID in an encoded record.
func uidIn(record string) types.UID {
	var head api.Header
	if err := json.Unmarshal([]byte(record), &head); err != nil {
		panic(err)
	}
	return head.Set.UID
}

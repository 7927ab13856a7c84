// Package overview lists StatefulSets with their operations, and says why each is awake or asleep. It is pure.
package overview

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// Version is the version of the documents. New fields do not change it.
const Version = 1

// Document is the output of kubectl drydock list -o json or -o yaml.
type Document struct {
	Version int   `json:"version"`
	Sets    []Set `json:"sets"`
}

// State says whether a set runs.
type State string

// The states of a set.
const (
	Awake         State = "Awake"
	FallingAsleep State = "FallingAsleep"
	Asleep        State = "Asleep"
	WakingUp      State = "WakingUp"
	// AtZero: another client scaled the set to zero.
	AtZero State = "AtZero"
)

// Set is a StatefulSet that has opted in.
type Set struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Group     string `json:"group,omitempty"`
	// Ready and Replicas count the ready and the requested replicas. A sleeping set has 0 of both.
	Ready    int32 `json:"ready"`
	Replicas int32 `json:"replicas"`
	// Saved is how many replicas a sleeping set gets back when it wakes.
	Saved int32 `json:"saved,omitempty"`
	State State `json:"state"`
	// Since is when the set began to fall asleep or to wake up, fell asleep, or became ready after its latest sleep. It is nil if the set
	// never slept.
	Since *metav1.Time `json:"since,omitempty"`
	// Why is why the set is in this state, or what keeps it awake.
	Why string `json:"why,omitempty"`
	// Operations are the active resize, rollback, cleanup and scaling, then the latest operations that cannot be read, then failed and
	// refused ones, unless a user aborted or withdrew them. An active sleep is in State. Alerts count the same operations. A successful
	// operation after which an owner stays paused is also listed, with the reason OwnerStays.
	Operations []Operation `json:"operations,omitempty"`
	// DeadLetters is the number of the set's dead letters. An unreadable list counts as one.
	DeadLetters int `json:"deadLetters,omitempty"`
}

// Operation is an operation on a set. Its phase is empty if the record cannot be read.
type Operation struct {
	Kind    api.Kind   `json:"kind"`
	Phase   api.Phase  `json:"phase,omitempty"`
	Request string     `json:"request,omitempty"`
	Reason  api.Reason `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
}

// Facts are what the overview needs of a set.
type Facts struct {
	member      idle.Member
	operations  []Operation
	deadLetters int
	restored    bool // it has the sleep of a former set, and stands at zero
}

// FactsOf returns the facts of a set.
func FactsOf(set *appsv1.StatefulSet) Facts {
	records := operation.Of(set)
	return Facts{idle.NewMember(set, records), operationsOf(records), deadLettersOf(set),
		api.FormerSleep(set) != nil}
}

// Reduced returns the facts without the set's other fields. A process that remembers all sets of the cluster must not depend on their size.
func (f Facts) Reduced() Facts {
	f.member = f.member.Reduced()
	for i := range f.operations {
		o := &f.operations[i]
		o.Request, o.Message = text.Clip(o.Request, longestText), text.Clip(o.Message, longestText)
	}
	return f
}

// longestText limits the request and the message of an operation in reduced facts, in bytes.
const longestText = 2 << 10

// New returns the overview of the sets, sorted by namespace and name. The list must contain every set of each group.
func New(sets []Facts, now time.Time) Document {
	type key struct{ namespace, group, single string }
	groups := map[key]idle.Group{}
	facts := map[[2]string]Facts{} // by namespace and name
	for _, f := range sets {
		set := f.member.Set
		k := key{set.Namespace, set.Labels[api.GroupLabel], ""}
		if k.group == "" {
			k.single = set.Name
		}
		groups[k] = append(groups[k], f.member)
		facts[[2]string{set.Namespace, set.Name}] = f
	}
	d := Document{Version: Version, Sets: []Set{}}
	for _, group := range groups {
		group = group.InWakeOrder() // an error in the order keeps the group awake
		for i, verdict := range group.Verdicts(now, time.Time{}) {
			set := group[i].Set
			d.Sets = append(d.Sets, setOf(group[i], facts[[2]string{set.Namespace, set.Name}], verdict))
		}
	}
	slices.SortFunc(d.Sets, func(a, b Set) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return d
}

func setOf(m idle.Member, f Facts, verdict idle.Verdict) Set {
	s := Set{Namespace: m.Set.Namespace, Name: m.Set.Name, Group: m.Set.Labels[api.GroupLabel], Ready: m.Set.Status.ReadyReplicas,
		Replicas: statefulset.Replicas(m.Set), Operations: f.operations, State: Awake, Why: verdict.Why, DeadLetters: f.deadLetters}
	switch sleep := m.Sleep; {
	case m.SleepErr != nil:
		s.Why = m.SleepErr.Error()
	case sleep.Active():
		s.State, s.Since, s.Why = stateOf(sleep), &sleep.Started, sleep.Message
		if s.State == WakingUp {
			s.Since = sleep.WakeBegan()
		}
		if s.State != WakingUp {
			s.Saved = sleep.Replicas
		}
		if s.State == Asleep && sleep.PodsGoneAt != nil {
			s.Since = sleep.PodsGoneAt
		}
	case s.Replicas == 0:
		s.State, s.Why = AtZero, "another client scaled it to zero"
		if m.CanWake() {
			s.Why = "it was created or left at zero, and wakes when it is needed"
		} else if f.restored {
			s.Why = "it was restored, or created again, while it slept. To start it, run kubectl drydock wake"
		}
	case sleep != nil && sleep.ReadyAt != nil:
		s.Since = sleep.ReadyAt
	}
	return s
}

func deadLettersOf(set *appsv1.StatefulSet) int {
	letters, err := api.LoadDeadLetters(set)
	if err != nil {
		return 1
	}
	return len(letters)
}

func stateOf(sleep *api.Sleep) State {
	switch sleep.Phase {
	case api.Asleep:
		return Asleep
	case api.Waking:
		return WakingUp
	}
	return FallingAsleep
}

// operationsOf returns the operations to show for the set, the most urgent first.
func operationsOf(records operation.Records) []Operation {
	var active, unread, unsuccessful []Operation
	for _, record := range records.All() {
		switch isSleep := record.Head().Kind == api.KindSleep; {
		case records.Settled(record) && record.Head().OwnerProblem != "":
			paused := shown(record)
			paused.Reason, paused.Message = api.OwnerStays, record.Head().OwnerProblem
			unsuccessful = append(unsuccessful, paused)
		case records.Settled(record) || isSleep && record.Active():
		case record.Head().Phase.Terminal():
			unsuccessful = append(unsuccessful, shown(record))
		default:
			active = append(active, shown(record))
		}
	}
	for _, failed := range []struct {
		kind api.Kind
		err  error
	}{{api.KindResize, records.ResizeErr}, {api.KindSleep, records.SleepErr}, {api.KindCleanup, records.CleanupErr},
		{api.KindScale, records.ScaleErr}} {
		if failed.err != nil {
			unread = append(unread, unreadable(failed.kind, failed.err))
		}
	}
	return slices.Concat(active, unread, unsuccessful)
}

func unreadable(kind api.Kind, err error) Operation {
	return Operation{Kind: kind, Reason: api.StatusInvalid, Message: err.Error()}
}

func shown(record operation.Record) Operation {
	head := record.Head()
	return Operation{Kind: head.Kind, Phase: head.Phase, Request: head.Purpose(), Reason: head.Reason, Message: head.Message}
}

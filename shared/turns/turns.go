// Package turns decides which resizes may copy now. Movers take memory on nodes and bandwidth of the storage, and a commit to a GitOps
// repository can request a thousand resizes at once. So the movers of a cluster have a limit, and namespaces take turns.
//
// The list of turns is a ConfigMap in Drydock's own namespace, with a key for each operation. The precondition of a write is that the keys
// it changes are as they were read. So a thousand operations that begin to wait do not prevent each other's writes. The key of the last
// turn is part of each write that gives a turn away, so that two functions cannot give the same turn away.
package turns

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Turn is the entry of an operation in the list.
type Turn struct {
	// Operation is the id of the operation. It is the key of the entry.
	Operation string    `json:"-"`
	Namespace string    `json:"namespace"`
	Set       string    `json:"set"`
	UID       types.UID `json:"uid"`
	// Movers is the number of movers that the operation needs at once.
	Movers int `json:"movers"`
	// Since is when the operation asked for its turn.
	Since metav1.Time `json:"since"`
	// Round orders the operations of all namespaces. Those of one namespace are in different rounds.
	Round int `json:"round,omitempty"`
	// Offered is when the operation could have its turn first. It is nil while others come first.
	Offered *metav1.Time `json:"offered,omitempty"`
	// Away is true while a waiting operation could not use a turn, because its window is closed. Others pass it.
	Away bool `json:"away,omitempty"`
	// Until is when the turn ends at the latest. It is nil while the operation waits.
	Until *metav1.Time `json:"until,omitempty"`
}

// Taken reports whether the operation has its turn.
func (t Turn) Taken() bool { return t.Until != nil }

// Of returns the turn that a resize needs. The second result is false if it needs none, because it copies nothing.
func Of(namespace string, record *api.Resize) (Turn, bool) {
	movers := len(record.Members)
	if movers > 0 && record.Strategy == api.StrategyRolling {
		movers = 1
	}
	return Turn{Operation: record.Operation, Namespace: namespace, Set: record.Set.Name, UID: record.Set.UID, Movers: movers},
		movers > 0 && record.Copies()
}

// List is the list of turns at the time of its read.
type List struct {
	config   *corev1.ConfigMap
	settings api.Settings
	now      time.Time
	turns    map[string]Turn
	lastTurn string
}

// lastTurnKey is the key with the operation that got its turn last, and when. It is no id of an operation.
const lastTurnKey = "last-turn"

// mostTurns bounds the size of the ConfigMap: the API server stores 1 MiB, and an entry has up to 600 bytes. Operations that are added at
// the same moment can exceed it by the number of events in progress.
const mostTurns = 1200

// offerTime is how long a turn is kept for the operation that is next. It may never take its turn, for example because its owner cannot be
// read. Then it loses its place, and asks again when it can.
const offerTime = 10 * time.Minute

// Read returns the list in the ConfigMap. Without a ConfigMap or a limit the result is nil, and every operation has its turn.
//
// These entries count as absent: unreadable ones, turns whose time is over, operations that have not taken their turn, and
// operations that wait in a namespace where Drydock does not work any more. They would keep others waiting for ever.
func Read(config *corev1.ConfigMap, settings api.Settings, now time.Time) *List {
	if config == nil || settings.Movers <= 0 {
		return nil
	}
	l := &List{config: config, settings: settings, now: now, turns: map[string]Turn{}, lastTurn: config.Data[lastTurnKey]}
	for operation, text := range config.Data {
		turn := Turn{}
		if operation == lastTurnKey || json.Unmarshal([]byte(text), &turn) != nil || turn.Namespace == "" || turn.Set == "" {
			continue
		}
		covered := len(settings.Namespaces) == 0 || slices.Contains(settings.Namespaces, turn.Namespace)
		lapsed := turn.Offered != nil && now.After(turn.Offered.Add(offerTime))
		if turn.Taken() && now.After(turn.Until.Time) || !turn.Taken() && (lapsed || !covered) {
			continue
		}
		turn.Operation, turn.Movers = operation, max(turn.Movers, 1)
		l.turns[operation] = turn
	}
	return l
}

// longest returns how long a turn can take: the time limits of the phases of a resize together.
func longest(s api.Settings) time.Duration {
	return s.PlanTimeout + s.CopyTimeout + s.SwapTimeout + s.ReadyTimeout
}

// Object returns the object that the list was read from.
func (l *List) Object() metav1.Object { return l.config }

// HasTurn reports whether the operation has its turn.
func (l *List) HasTurn(operation string) bool { return l == nil || l.turns[operation].Taken() }

// Limit returns how many movers may run at once.
func (l *List) Limit() int { return l.settings.Movers }

// All returns the entries, sorted by operation.
func (l *List) All() []Turn {
	if l == nil {
		return nil
	}
	all := make([]Turn, 0, len(l.turns))
	for _, t := range l.turns {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Turn) int { return cmp.Compare(a.Operation, b.Operation) })
	return all
}

// share returns how many movers one namespace may have at once.
func (l *List) share() int { return (l.Limit() + 1) / 2 }

// counted returns how many movers of the limit the operation takes. An operation whose members stop together needs all its movers at once.
// If these are more than the share of its namespace, it takes the share and runs more. If it had to wait for the movers of the others,
// or they for its end, one tenant could stop the resizes of all.
func (l *List) counted(t Turn) int { return min(t.Movers, l.share()) }

func (l *List) movers(counts func(Turn) bool) int {
	n := 0
	for _, t := range l.turns {
		if counts(t) {
			n += l.counted(t)
		}
	}
	return n
}

// Next returns the waiting operations that may have their turn now, in their order. The next turn belongs to the namespace with the fewest
// movers, then to the operation in the lowest round, then to the oldest one. If it needs more movers than are free, all
// others wait, too, because otherwise it would wait forever. For the same reason, no operation overtakes another one of its namespace. A
// namespace gets at most half of the movers: the resizes of one tenant may take days, and must not keep those of all others waiting.
func (l *List) Next() []Turn {
	if l == nil {
		return nil
	}
	busy, movers := 0, map[string]int{}
	for _, t := range l.turns {
		if t.Taken() {
			busy, movers[t.Namespace] = busy+l.counted(t), movers[t.Namespace]+l.counted(t)
		}
	}
	waiting := slices.DeleteFunc(l.waiting(), isAway)
	var next []Turn
	for {
		first := l.first(waiting, movers)
		if first == nil || busy+l.counted(*first) > l.Limit() {
			return next
		}
		turn := *first
		busy, movers[turn.Namespace] = busy+l.counted(turn), movers[turn.Namespace]+l.counted(turn)
		next = append(next, turn)
		waiting = slices.DeleteFunc(waiting, func(t Turn) bool { return t.Operation == turn.Operation })
	}
}

func isAway(t Turn) bool { return t.Away }

// waiting returns the operations that wait, in the order of their rounds. Operations of a namespace that asked at the same moment may have
// stored the same round. Each of them gets a later one than the one before it.
func (l *List) waiting() []Turn {
	byRound := func(a, b Turn) int {
		return cmp.Or(cmp.Compare(a.Round, b.Round), a.Since.Compare(b.Since.Time), cmp.Compare(a.Operation, b.Operation))
	}
	var all []Turn
	for _, t := range l.turns {
		if !t.Taken() {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, byRound)
	last := map[string]int{}
	for i, t := range all {
		if before, ok := last[t.Namespace]; ok {
			all[i].Round = max(t.Round, before+1)
		}
		last[t.Namespace] = all[i].Round
	}
	slices.SortFunc(all, byRound)
	return all
}

// storeRounds gives each waiting operation of the namespace the round that it has in the order. Otherwise the next one would have the round
// of the first one after that has ended, and would overtake other namespaces.
func (l *List) storeRounds(namespace string) {
	for _, t := range l.waiting() {
		if t.Namespace == namespace {
			l.turns[t.Operation] = t
		}
	}
}

// first returns the operation whose turn is next, or nil. The operations are in the order of their rounds, and movers has the number of
// movers of each namespace.
func (l *List) first(waiting []Turn, movers map[string]int) *Turn {
	seen := map[string]bool{}
	var first *Turn
	for i, t := range waiting {
		if seen[t.Namespace] {
			continue
		}
		seen[t.Namespace] = true
		mayRun := movers[t.Namespace]+l.counted(t) <= l.share()
		if mayRun && (first == nil || movers[t.Namespace] < movers[first.Namespace]) {
			first = &waiting[i]
		}
	}
	return first
}

// nextRound returns the round for another operation of the namespace. It is after those of the namespace, so that the namespaces alternate,
// and not before the round that has begun, so that an operation that asks later does not overtake all others.
func (l *List) nextRound(namespace string) int {
	round := 0
	for _, t := range l.turns {
		if t.Taken() {
			round = max(round, t.Round)
		}
	}
	waiting := l.waiting()
	if first := slices.DeleteFunc(slices.Clone(waiting), isAway); len(first) > 0 {
		round = max(round, first[0].Round)
	}
	for _, t := range waiting {
		if t.Namespace == namespace {
			round = max(round, t.Round+1)
		}
	}
	return round
}

// Request returns the list with the operation in it. The operation has its turn if the result says so. It waits if the list is full.
//
// A set has one operation that waits. An earlier one is over: the set was created again, or its record was replaced.
func (l *List) Request(turn Turn) *List {
	known, listed := l.turns[turn.Operation]
	if known.Taken() {
		return l
	}
	next := l.clone()
	maps.DeleteFunc(next.turns, func(operation string, t Turn) bool {
		return operation != turn.Operation && !t.Taken() && t.Namespace == turn.Namespace && t.Set == turn.Set
	})
	if !listed && !next.makeRoom(turn.Namespace) {
		return l
	}
	turn.Since, turn.Round, turn.Offered = known.Since, known.Round, known.Offered
	if !listed {
		turn.Since, turn.Round = metav1.NewTime(l.now.UTC()), next.nextRound(turn.Namespace)
	}
	next.turns[turn.Operation] = turn
	if slices.ContainsFunc(next.Next(), func(t Turn) bool { return t.Operation == turn.Operation }) {
		until := metav1.NewTime(l.now.UTC().Add(longest(l.settings)))
		next.storeRounds(turn.Namespace)
		turn.Until, turn.Offered, turn.Round = &until, nil, next.turns[turn.Operation].Round
		next.lastTurn = turn.Operation + " " + l.now.UTC().Format(time.RFC3339Nano)
		next.turns[turn.Operation] = turn
	}
	next.offer()
	return next
}

// Leave returns the list without the turn of the operation. If it still waits, it keeps its place until it asks again.
func (l *List) Leave(operation string) *List {
	next := l.clone()
	if t, listed := next.turns[operation]; listed && !t.Taken() {
		t.Away = true
		next.turns[operation] = t
	} else {
		delete(next.turns, operation)
	}
	next.offer()
	return next
}

// HasRoom reports whether the list takes another operation of the namespace.
func (l *List) HasRoom(namespace string) bool {
	return l == nil || l.clone().makeRoom(namespace)
}

// makeRoom reports whether there is room for another operation of the namespace. In a full list, the namespace with the most operations
// loses its last one, so that no tenant can fill the list. That operation asks again later.
func (l *List) makeRoom(namespace string) bool {
	if len(l.turns) < mostTurns {
		return true
	}
	counts := map[string]int{}
	var last *Turn
	for _, t := range l.turns {
		counts[t.Namespace]++
	}
	for _, t := range l.turns {
		if !t.Taken() && (last == nil || cmp.Or(cmp.Compare(counts[t.Namespace], counts[last.Namespace]),
			cmp.Compare(t.Namespace, last.Namespace), cmp.Compare(t.Round, last.Round), t.Since.Compare(last.Since.Time),
			cmp.Compare(t.Operation, last.Operation)) > 0) {
			last = &t
		}
	}
	if last == nil || counts[last.Namespace] <= counts[namespace]+1 {
		return false
	}
	delete(l.turns, last.Operation)
	return true
}

// offer notes since when the next operations may have their turn.
func (l *List) offer() {
	now := metav1.NewTime(l.now.UTC())
	next := map[string]bool{}
	for _, t := range l.Next() {
		next[t.Operation] = true
	}
	for operation, t := range l.turns {
		switch {
		case !next[operation]:
			t.Offered = nil
		case t.Offered == nil:
			t.Offered = &now
		}
		l.turns[operation] = t
	}
}

// LacksOffer reports whether an operation may have its turn and the list does not say since when, so that its turn cannot lapse. Two writes
// at the same moment may each free or take a part of the movers that it needs. Any other operation that asks for its turn stores it.
func (l *List) LacksOffer() bool {
	return slices.ContainsFunc(l.Next(), func(t Turn) bool { return t.Offered == nil })
}

// Without returns the list without the operations that have ended.
func (l *List) Without(ended func(Turn) bool) *List {
	next := l.clone()
	for operation, t := range l.turns {
		if ended(t) {
			delete(next.turns, operation)
		}
	}
	next.offer()
	return next
}

func (l *List) clone() *List {
	next := *l
	next.turns = maps.Clone(l.turns)
	return &next
}

// Store returns the write that makes the ConfigMap equal to the list. There is none if nothing has changed. It removes entries that cannot
// be read.
func (l *List) Store() []plan.Action {
	data := map[string]string{}
	for operation, t := range l.turns {
		text, err := json.Marshal(t)
		if err != nil {
			panic(err) // plain fields only
		}
		data[operation] = string(text)
	}
	if len(data) > 0 && l.lastTurn != "" {
		data[lastTurnKey] = l.lastTurn
	}
	return plan.SetData(l.config, data)
}

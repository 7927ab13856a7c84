package turns

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
	"drydock.dev/test/seed"
)

// listOf returns a list for at most limit movers. An entry is "namespace/operation movers", with a star if it has its turn. The entries
// have asked in their order.
func listOf(limit int, entries ...string) *List {
	l := listFor(limit, build.Now)
	for i, text := range entries {
		var name string
		t := Turn{Since: metav1.NewTime(build.Now.Add(time.Duration(i) * time.Second))}
		if strings.HasSuffix(text, "*") {
			t.Until = &metav1.Time{Time: build.Now.Add(time.Hour)}
		}
		_, _ = fmt.Sscanf(text, "%s %d", &name, &t.Movers)
		t.Namespace, t.Operation, _ = strings.Cut(name, "/")
		t.Set = "set-" + t.Operation
		l.turns[t.Operation] = t
	}
	return l
}

func listFor(limit int, now time.Time) *List {
	settings := build.Settings()
	settings.Movers = limit
	return Read(&corev1.ConfigMap{}, settings, now)
}

func names(all []Turn) string {
	var text []string
	for _, t := range all {
		text = append(text, t.Operation)
	}
	return strings.Join(text, " ")
}

// TestNamespacesTakeTurns shows who is next.
func TestNamespacesTakeTurns(t *testing.T) {
	for name, row := range map[string]struct {
		list *List
		want string
	}{
		"no operation waits":                             {listOf(4, "a/1 1*"), ""},
		"the first to ask is the first":                  {listOf(4, "a/1 1", "a/2 1"), "1 2"},
		"the namespace with fewer movers comes first":    {listOf(4, "a/1 1*", "a/2 1", "b/3 1"), "3 2"},
		"the namespaces alternate":                       {listOf(6, "a/1 1", "a/2 1", "a/3 1", "b/4 1", "b/5 1"), "1 4 2 5 3"},
		"no more than the limit":                         {listOf(2, "a/1 1*", "b/2 1", "c/3 1"), "2"},
		"a namespace gets half":                          {listOf(4, "a/1 1*", "a/2 1*", "a/3 1"), ""},
		"half of an odd limit is rounded up":             {listOf(3, "a/1 1*", "a/2 1", "a/3 1"), "2"},
		"a large resize does not wait for ever":          {listOf(4, "a/1 2*", "d/4 1*", "b/2 2", "c/3 1"), ""},
		"a resize beyond the limit takes its share":      {listOf(4, "a/1 9", "b/2 1"), "1 2"},
		"a resize beyond the limit waits for its share":  {listOf(4, "a/1 9*", "d/4 1*", "b/2 9", "c/3 1"), ""},
		"two resizes beyond the limit run together":      {listOf(4, "a/1 9*", "b/2 9"), "2"},
		"others run beside a resize beyond the limit":    {listOf(4, "a/1 9*", "b/2 1"), "2"},
		"a namespace has one resize beyond the limit":    {listOf(4, "a/1 9*", "a/2 9", "b/3 1"), "3"},
		"a later one of the namespace does not overtake": {listOf(4, "a/1 1*", "a/2 2", "a/3 1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(row.list.Next()); got != row.want {
				t.Errorf("next are %q, want %q", got, row.want)
			}
		})
	}
}

// TestOperationKeepsItsPlaceWhileItIsAway: the window of an operation that waits closes. Others pass it until it asks again, and then it is
// as early as before. An operation that had its turn has used its place.
func TestOperationKeepsItsPlaceWhileItIsAway(t *testing.T) {
	full := listOf(2, "x/0 1*", "y/9 1*").Request(Turn{Operation: "1", Namespace: "a", Set: "set-1", Movers: 1}).
		Request(Turn{Operation: "2", Namespace: "b", Set: "set-2", Movers: 1})
	free := func(l *List) *List {
		return l.Without(func(t Turn) bool { return t.Operation == "0" || t.Operation == "9" })
	}
	asks := func(l *List, operation, namespace string) *List {
		return l.Request(Turn{Operation: operation, Namespace: namespace, Set: "set-" + operation, Movers: 1})
	}
	if got := names(free(full).Next()); got != "1 2" {
		t.Fatalf("next are %q before any leaves", got)
	}
	away := full.Leave("1")
	if got := names(free(away).Next()); got != "2" {
		t.Errorf("next are %q while operation 1 is away", got)
	}
	away.now = build.Now.Add(30 * time.Minute) // longer than a turn is kept for the operation that is next
	back := asks(stored(asks(away, "3", "c")), "1", "a").Without(func(t Turn) bool { return t.Operation == "0" })
	if got := names(back.Next()); got != "1" {
		t.Errorf("next are %q after operation 1 has asked again", got)
	}
	taken := asks(free(full), "1", "a").Leave("1")
	if got := names(taken.All()); got != "2" {
		t.Errorf("the list has %q after an operation has left its turn", got)
	}
}

// TestOneNamespaceNeverTakesAllTurns: the sets of one namespace have any number of members, and their turns do not end. The sets of all
// other namespaces get their turns at once, until these have the other half of the movers.
func TestOneNamespaceNeverTakesAllTurns(t *testing.T) {
	for limit := 2; limit <= 20; limit++ {
		for _, members := range []int{1, limit / 2, limit, limit + 1, 1000} {
			list := listFor(limit, build.Now)
			for i := range 30 {
				list = list.Request(Turn{Operation: fmt.Sprint("evil-", i), Namespace: "evil", Set: fmt.Sprint(i), Movers: max(members, 1)})
			}
			if !list.HasTurn("evil-0") {
				t.Errorf("limit %d, %d members: the first resize has no turn", limit, members)
			}
			for i := range limit / 2 {
				operation := fmt.Sprint("other-", i)
				list = list.Request(Turn{Operation: operation, Namespace: operation, Set: "db", Movers: 1})
				if !list.HasTurn(operation) {
					t.Errorf("limit %d, %d members: resize %d of the other namespaces has no turn", limit, members, i+1)
				}
			}
			list = list.Request(Turn{Operation: "late", Namespace: "late", Set: "db", Movers: limit})
			if busy := list.movers(Turn.Taken); busy > limit {
				t.Errorf("limit %d, %d members: %d movers are counted", limit, members, busy)
			}
		}
	}
}

// TestEveryResizeGetsItsTurn plays random requests and ends. The limit holds at every moment, and all operations have run in the end.
func TestEveryResizeGetsItsTurn(t *testing.T) {
	for n := range seed.Next(t, 200) {
		random := rand.New(rand.NewPCG(n, 0))
		limit := 1 + random.IntN(8)
		list := listFor(limit, build.Now)
		var asked []Turn
		ran, left := map[string]bool{}, 60
		for steps := 0; len(ran) < 60 || len(list.turns) > 0; steps++ {
			if steps > 10_000 {
				t.Fatalf("seed %d: %d of 60 operations have run", n, len(ran))
			}
			list.now = list.now.Add(time.Second)
			switch choice := random.IntN(3); {
			case choice == 0 && left > 0:
				left--
				asked = append(asked, Turn{Operation: fmt.Sprint(left), Namespace: string(rune('a' + random.IntN(4))), Set: fmt.Sprint(left),
					Movers: 1 + random.IntN(4)})
				list = list.Request(asked[len(asked)-1])
			case choice == 1 && len(asked) > 0: // an event arrives late, or again
				if turn := asked[random.IntN(len(asked))]; !ran[turn.Operation] || list.turns[turn.Operation].Operation != "" {
					list = list.Request(turn)
				}
			default:
				ended := ""
				for _, turn := range list.All() {
					if turn.Taken() {
						ended = turn.Operation
						break
					}
				}
				list = list.Without(func(turn Turn) bool { return turn.Operation == ended })
				for _, turn := range list.Next() { // the first is woken, the sweep wakes the others
					list = list.Request(turn)
				}
			}
			busy, running := list.moversInUse(), 0
			for _, turn := range list.turns {
				if turn.Taken() {
					ran[turn.Operation] = true
					running++
				}
			}
			if busy > limit {
				t.Fatalf("seed %d: %d operations have %d movers, the limit is %d", n, running, busy, limit)
			}
		}
	}
}

// write applies the writes to the ConfigMap as the API server does. It reports whether their preconditions held.
func write(config *corev1.ConfigMap, writes []plan.Action) bool {
	data := maps.Clone(config.Data)
	for _, a := range writes {
		for _, op := range a.Ops[1:] {
			key := strings.TrimPrefix(op.Path, "/data/")
			present, exists := data[key]
			switch text, isText := op.Value.(string); {
			case op.Path == "/data" && op.Op == "test":
				if data != nil {
					return false
				}
			case op.Path == "/data":
				data = map[string]string{}
			case op.Op == "test" && (exists != isText || present != text):
				return false
			case op.Op == "add":
				data[key] = text
			case op.Op == "remove":
				delete(data, key)
			}
		}
	}
	config.Data = data
	return true
}

// stored returns the list as it is read from its ConfigMap a minute later.
func stored(l *List) *List {
	config := &corev1.ConfigMap{}
	if l.moversInUse() > 0 {
		l.lastTurn = "an earlier one"
	}
	write(config, l.Store())
	return Read(config, l.settings, l.now.Add(time.Minute))
}

// TestWritesAtTheSameTime: functions have read the same list, and write one after the other. Two operations never get the same turn.
func TestWritesAtTheSameTime(t *testing.T) {
	request := func(operation, namespace string) func(*List) *List {
		return func(l *List) *List {
			return l.Request(Turn{Operation: operation, Namespace: namespace, Set: operation, Movers: 1})
		}
	}
	end := func(operation string) func(*List) *List {
		return func(l *List) *List { return l.Without(func(t Turn) bool { return t.Operation == operation }) }
	}
	full, free := listOf(2, "a/1 1*", "b/2 1*", "c/3 1"), listOf(2, "a/1 1*")
	for name, row := range map[string]struct {
		list          *List
		first, second func(*List) *List
		both          bool
	}{
		"two begin to wait":                             {full, request("8", "x"), request("9", "y"), true},
		"two take the only free turn":                   {free, request("8", "x"), request("9", "y"), false},
		"two take the first turns":                      {listFor(2, build.Now), request("8", "x"), request("9", "y"), false},
		"one begins to wait, and another one ends":      {full, request("8", "x"), end("1"), true},
		"one ends, and another one begins to wait":      {full, end("1"), request("8", "x"), true},
		"one ends, and another one takes a turn":        {listOf(3, "a/1 1*", "b/2 1*"), end("1"), request("8", "x"), true},
		"one takes a turn, and another one ends":        {listOf(3, "a/1 1*", "b/2 1*"), request("8", "x"), end("1"), true},
		"the last one ends, and another takes a turn":   {free, end("1"), request("8", "x"), false},
		"one takes a turn, and the last one ends":       {free, request("8", "x"), end("1"), false},
		"the same one begins to wait twice":             {full, request("8", "x"), request("8", "x"), false},
		"the same one ends twice":                       {full, end("1"), end("1"), false},
		"two ends offer the turn to the same one":       {full, end("1"), end("2"), false},
		"one waits, and the next one takes its turn":    {end("1")(full), request("8", "x"), request("3", "c"), true},
		"the next one takes its turn, and another ends": {end("1")(full), request("3", "c"), end("2"), true},
	} {
		t.Run(name, func(t *testing.T) {
			list := stored(row.list)
			if again := list.Store(); len(again) != 0 {
				t.Errorf("nothing has changed: %v", again)
			}
			config := list.config.DeepCopy()
			one, two := row.first(list).Store(), row.second(list).Store()
			if !write(config, one) {
				t.Fatal("the first write fails")
			}
			if got := write(config, two); got != row.both {
				t.Errorf("the second write succeeds: %t, %v after %v", got, two, one)
			}
			if after := Read(config, list.settings, list.now); after.moversInUse() > list.Limit() {
				t.Errorf("%d movers, the limit is %d", after.moversInUse(), list.Limit())
			}
		})
	}
}

// TestOperationsThatAskedTogetherHaveDifferentRounds: operations of a namespace that asked at the same moment have stored the same round.
func TestOperationsThatAskedTogetherHaveDifferentRounds(t *testing.T) {
	list := listOf(1, "x/0 1*", "a/1 1", "a/2 1", "a/3 1", "b/4 1", "c/5 1")
	rounds := map[string]int{}
	for _, turn := range list.waiting() {
		rounds[turn.Operation] = turn.Round
	}
	if fmt.Sprint(rounds) != "map[1:0 2:1 3:2 4:0 5:0]" {
		t.Errorf("%v", rounds)
	}
	if a, b, other := list.nextRound("a"), list.nextRound("b"), list.nextRound("z"); a != 3 || b != 1 || other != 0 {
		t.Errorf("next rounds: %d, %d, %d", a, b, other)
	}
	order := names(list.waiting())
	if order != "1 4 5 2 3" {
		t.Errorf("the order is %s", order)
	}
}

// TestOperationsThatAskedTogetherDoNotOvertakeOthers: fifty operations of a namespace were added after the same read, so they have the
// same round. One operation runs at a time.
func TestOperationsThatAskedTogetherDoNotOvertakeOthers(t *testing.T) {
	for _, limit := range []int{1, 3, 19} {
		movers := limit/2 + 1 // two of them exceed the limit
		list := stored(listFor(limit, build.Now).Request(Turn{Operation: "x", Namespace: "x", Set: "x", Movers: movers}))
		config := list.config.DeepCopy()
		add := func(l *List, operation, namespace string) {
			if !write(config, l.Request(Turn{Operation: operation, Namespace: namespace, Set: operation, Movers: movers}).Store()) {
				t.Fatalf("limit %d: the write of %s fails", limit, operation)
			}
		}
		for i := range 50 {
			add(list, fmt.Sprintf("a%02d", i), "a")
		}
		add(Read(config, list.settings, list.now.Add(time.Second)), "d", "d")
		before := 0
		for now := list.now.Add(time.Minute); !Read(config, list.settings, now).HasTurn("d"); before++ {
			if before > 5 {
				t.Fatalf("limit %d: d waits although %d operations have had their turns", limit, before)
			}
			now = now.Add(time.Second)
			write(config, Read(config, list.settings, now).Without(Turn.Taken).Store())
			next := Read(config, list.settings, now).Next()
			write(config, Read(config, list.settings, now).Request(next[0]).Store())
		}
	}
}

// TestOfferThatTwoWritesMissed: two operations end at the same moment. For each of them alone, the next one did not fit yet.
func TestOfferThatTwoWritesMissed(t *testing.T) {
	list := stored(listOf(3, "a/1 1*", "b/2 1*", "e/5 1*", "c/3 2", "d/4 2"))
	config := list.config.DeepCopy()
	for _, ended := range []string{"1", "2"} {
		if !write(config, list.Without(func(t Turn) bool { return t.Operation == ended }).Store()) {
			t.Fatalf("the end of %s is not stored", ended)
		}
	}
	free := Read(config, list.settings, list.now)
	if names(free.Next()) != "3" || !free.LacksOffer() {
		t.Fatalf("next are %q", names(free.Next()))
	}
	write(config, free.Request(free.turns["4"]).Store()) // the sweep has woken it
	if offered := Read(config, list.settings, list.now); offered.LacksOffer() || offered.turns["3"].Offered == nil {
		t.Errorf("%+v", offered.turns)
	}
	if later := Read(config, list.settings, list.now.Add(offerTime+time.Second)); names(later.Next()) != "4" {
		t.Errorf("next are %q", names(later.Next()))
	}
}

// TestLastTurnIsNoOperation: an administrator could write an entry there.
func TestLastTurnIsNoOperation(t *testing.T) {
	list := listFor(1, build.Now)
	list.config.Data = map[string]string{lastTurnKey: `{"namespace":"a","set":"b","until":"2999-01-01T00:00:00Z"}`}
	if list = Read(list.config, list.settings, build.Now); len(list.All()) != 0 {
		t.Errorf("%+v", list.turns)
	}
}

func TestTurnStaysOnceItIsTaken(t *testing.T) {
	list := listOf(1, "a/1 1*", "b/2 1")
	again := list.Request(Turn{Operation: "1", Namespace: "a", Set: "set-1", Movers: 1})
	if !again.HasTurn("1") || again.HasTurn("2") {
		t.Errorf("%+v", again.turns)
	}
}

func TestResizeThatCopiesNothingNeedsNoTurn(t *testing.T) {
	for name, row := range map[string]struct {
		record *api.Resize
		movers int
		needed bool
	}{
		"three members at once": {build.Operation(api.Planned,
			build.Members(api.MemberPending, "data-web-0", "data-web-1", "data-web-2")), 3, true},
		"three members, one after the other": {build.Operation(api.Planned, build.Rolling,
			build.Members(api.MemberPending, "data-web-0", "data-web-1", "data-web-2")), 1, true},
		"a rollback": {build.Operation(api.Planned, build.RollbackOf("x"), build.Members(api.MemberPending, "data-web-0")), 1, false},
		"no members": {build.Operation(api.Planned), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if turn, needed := Of("shop", row.record); turn.Movers != row.movers || needed != row.needed {
				t.Errorf("%d movers, needed %t", turn.Movers, needed)
			}
		})
	}
}

// TestListSurvivesItsConfigMap: what Store writes, Read reads. Unreadable entries are removed.
func TestListSurvivesItsConfigMap(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{"x": "{", "y": `{"movers":3}`}}
	config.ResourceVersion = "7"
	settings := build.Settings()
	settings.Movers = 3
	list := Read(config, settings, build.Now).Request(Turn{Operation: "1", Namespace: "a", Set: "web", UID: "u", Movers: 2})
	if writes := list.Store(); len(writes) != 1 || !write(config, writes) {
		t.Fatalf("%v", writes)
	}
	again := Read(config, settings, build.Now)
	if len(config.Data) != 2 || !again.HasTurn("1") || again.moversInUse() != 2 || len(again.Store()) != 0 {
		t.Errorf("%v", config.Data)
	}
}

// TestFullListStaysBelowTheSizeOfAnObject: the API server stores objects of up to 1.5 MiB, and a ConfigMap of 1 MiB.
func TestFullListStaysBelowTheSizeOfAnObject(t *testing.T) {
	list := listFor(1, build.Now)
	for i := range mostTurns + 10 {
		list = list.Request(Turn{Operation: fmt.Sprintf("%012d", i), Namespace: strings.Repeat("n", 63), Set: fmt.Sprintf("%0253d", i),
			UID: "00000000-0000-0000-0000-000000000000", Movers: 1000})
	}
	size := 0
	for _, op := range list.Store()[0].Ops {
		if text, ok := op.Value.(string); ok {
			size += len(op.Path) + len(text)
		}
	}
	if len(list.turns) != mostTurns || size > 1<<20 {
		t.Errorf("%d turns take %d bytes", len(list.turns), size)
	}
}

func TestWithoutALimitEveryResizeHasItsTurn(t *testing.T) {
	limited := build.Settings()
	limited.Movers = 5
	for _, list := range []*List{Read(nil, limited, build.Now), listFor(0, build.Now)} {
		if list != nil || !list.HasTurn("1") || len(list.Next()) != 0 || len(list.All()) != 0 {
			t.Errorf("%+v", list)
		}
	}
}

// TestAbandonedEntriesKeepNoneWaiting: the process that would remove an entry may never come back.
func TestAbandonedEntriesKeepNoneWaiting(t *testing.T) {
	settings := build.Settings()
	settings.Movers = 1
	config := &corev1.ConfigMap{Data: map[string]string{}}
	store := func(turn Turn) {
		write(config, Read(config, settings, build.Now).Request(turn).Store())
	}
	store(Turn{Operation: "1", Namespace: "a", Set: "web", Movers: 1})
	store(Turn{Operation: "2", Namespace: "b", Set: "web", Movers: 1})
	store(Turn{Operation: "3", Namespace: "c", Set: "web", Movers: 1})
	if list := Read(config, settings, build.Now.Add(longest(settings))); names(list.Next()) != "" || !list.HasTurn("1") {
		t.Errorf("the turn has ended before its time: %+v", list.turns)
	}
	later := build.Now.Add(longest(settings) + time.Minute)
	if list := Read(config, settings, later); names(list.Next()) != "2" {
		t.Errorf("next are %q", names(list.Next()))
	}
	settings.Namespaces = []string{"c"}
	if list := Read(config, settings, later); names(list.Next()) != "3" {
		t.Errorf("next are %q: Drydock does not work in namespace b any more", names(list.Next()))
	}
}

// TestNamespaceDoesNotQueueBehindAllOfAnother: with more namespaces than movers, all waiting namespaces have no mover. A tenant who has
// requested a hundred resizes before must not run them all first.
func TestNamespaceDoesNotQueueBehindAllOfAnother(t *testing.T) {
	for _, limit := range []int{1, 2} {
		list := listFor(limit, build.Now)
		request := func(namespace string, i int) {
			list.now = list.now.Add(time.Second)
			operation := fmt.Sprintf("%s%d", namespace, i)
			list = list.Request(Turn{Operation: operation, Namespace: namespace, Set: operation, Movers: 1})
		}
		for i := range 100 {
			request("a", i)
			request("b", i)
		}
		for i := range 3 {
			request("c", i)
		}
		ended := 0
		for ; !list.HasTurn("c2"); ended++ {
			if ended > 20 {
				t.Fatalf("limit %d: c waits although %d operations of a and b have ended", limit, ended)
			}
			list.now = list.now.Add(time.Second)
			running := slices.DeleteFunc(list.All(), func(turn Turn) bool { return !turn.Taken() })
			end := slices.MinFunc(running, func(a, b Turn) int { return a.Until.Compare(b.Until.Time) }).Operation
			list = list.Without(func(turn Turn) bool { return turn.Operation == end })
			for _, turn := range list.Next() {
				list = list.Request(turn)
			}
		}
	}
}

// TestTenantCannotFillTheList: a tenant who requests more resizes than the list has room for must not keep another namespace out.
func TestTenantCannotFillTheList(t *testing.T) {
	list := listFor(1, build.Now)
	for i := range mostTurns + 10 {
		list = list.Request(Turn{Operation: fmt.Sprintf("%012d", i), Namespace: "a", Set: fmt.Sprint(i), Movers: 1})
	}
	if list.HasRoom("a") || !list.HasRoom("b") {
		t.Error("there is room for a, or none for b")
	}
	list = list.Request(Turn{Operation: "b", Namespace: "b", Set: "web", Movers: 1})
	if _, listed := list.turns["b"]; !listed || len(list.turns) != mostTurns || !list.HasTurn(fmt.Sprintf("%012d", 0)) {
		t.Errorf("b is listed: %t, %d turns", listed, len(list.turns))
	}
}

// TestSetHasOneWaitingEntry: a set that was created again, or whose record a user forges again and again, has a new operation each time.
// The former ones never ask again.
func TestSetHasOneWaitingEntry(t *testing.T) {
	list := listOf(1, "x/0 1*")
	for i := range 5 {
		list = list.Request(Turn{Operation: fmt.Sprint("web", i), Namespace: "a", Set: "web", Movers: 1})
	}
	if len(list.turns) != 2 || list.turns["web4"].Set != "web" {
		t.Errorf("%+v", list.turns)
	}
}

// TestOfferedTurnLapses: an operation may never take its turn, for example because its owner cannot be read, or its set is stuck in its
// deletion. It must not keep the others waiting for ever.
func TestOfferedTurnLapses(t *testing.T) {
	settings := build.Settings()
	settings.Movers = 1
	list := listFor(1, build.Now).Request(Turn{Operation: "1", Namespace: "a", Set: "web", Movers: 1}).
		Request(Turn{Operation: "2", Namespace: "b", Set: "web", Movers: 1}).
		Request(Turn{Operation: "3", Namespace: "c", Set: "web", Movers: 1}).
		Without(func(turn Turn) bool { return turn.Operation == "1" }) // 2 may have its turn, and never comes
	config := &corev1.ConfigMap{}
	write(config, list.Store())
	for _, row := range []struct {
		after time.Duration
		want  string
	}{{offerTime, "2"}, {offerTime + time.Second, "3"}} {
		if got := names(Read(config, settings, build.Now.Add(row.after)).Next()); got != row.want {
			t.Errorf("after %s next are %q, want %q", row.after, got, row.want)
		}
	}
	late := Read(config, settings, build.Now.Add(time.Hour)).Request(Turn{Operation: "2", Namespace: "b", Set: "web", Movers: 1})
	if late.HasTurn("2") || names(late.Next()) != "3" {
		t.Errorf("the late operation is not behind the others: %+v", late.turns)
	}
}

// moversInUse returns how many movers the operations need that have their turn.
func (l *List) moversInUse() int { return l.movers(func(t Turn) bool { return t.Taken() }) }

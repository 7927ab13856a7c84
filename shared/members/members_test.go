package members

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// ledger is that of web, as words such as "3 pods at 4, complete, order 1 from 1 to 3".
type ledger string

func wordsOf(l *api.Ledger) ledger {
	text := fmt.Sprintf("%d pods at %d", l.Count, l.Generation)
	if l.Complete {
		text += ", complete"
	}
	if l.Start > 0 {
		text += fmt.Sprintf(", start %d", l.Start)
	}
	if r := l.Removing; r != nil {
		text += fmt.Sprintf(", order %d from %d to %d", r.Order, r.Start, r.End)
	}
	return ledger(text)
}

func (words ledger) parse() *api.Ledger {
	l := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Complete: strings.Contains(string(words), ", complete")}
	_, order, ordered := strings.Cut(string(words), ", order ")
	if ordered {
		l.Removing = &api.Removal{}
		if _, err := fmt.Sscanf(order, "%d from %d to %d", &l.Removing.Order, &l.Removing.Start, &l.Removing.End); err != nil {
			panic(err)
		}
		l.Orders = l.Removing.Order
	}
	if _, err := fmt.Sscanf(string(words), "%d pods at %d", &l.Count, &l.Generation); err != nil {
		panic(err)
	}
	return l
}

// web returns a set with a cleanup template.
func web(replicas int32, generation int64, before ledger, options ...build.Option) *appsv1.StatefulSet {
	set := build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed"),
		build.Annotation(api.CleanupTemplateAnnotation, `{}`)}, options...)...)
	set.Spec.Replicas, set.Generation = ptr.To(replicas), generation
	if before != "" {
		build.Annotation(api.LedgerAnnotation, before.parse().Encode())(set)
	}
	return set
}

const (
	three    = ledger("3 pods at 4, complete")
	waiting  = ledger("3 pods at 4")
	ordered  = ledger("3 pods at 5, complete, order 1 from 1 to 3")
	removing = ledger("3 pods at 4, complete, order 1 from 1 to 3")
)

// TestLedger is the table of the ledger: what a look at the set makes of it.
// Invariants: I1.
func TestLedger(t *testing.T) {
	atZero := build.Annotation(api.CleanupAtZeroAnnotation, "true")
	sleeps, operator := record(api.SleepAnnotation, api.KindSleep, api.Stopping, ""), build.ControlledBy("Database", "main")
	adopted := record(api.ScaleAnnotation, api.KindScale, api.Succeeded, `,"previous":1,"target":1`)
	for name, row := range map[string]struct {
		set   *appsv1.StatefulSet
		want  ledger
		facts Facts
	}{
		"without a ledger, what is requested is all":  {set: web(2, 5, ""), want: "2 pods at 5, complete"},
		"without a ledger, a stopped set has no pods": {set: web(0, 5, ""), want: "0 pods at 5, complete"},
		"created again with fewer pods":               {set: web(1, 5, three, build.UID("uid-new")), want: "3 pods at 5"},
		"created again with all pods":                 {set: web(3, 1, three, build.UID("uid-new")), want: "3 pods at 1, complete"},
		"created again during a cleanup":              {set: web(1, 4, removing, build.UID("uid-new")), want: "3 pods at 4"},
		"the number of an order is new":               {set: web(1, 4, "", cleanedUp(7)), want: "1 pods at 4, complete"},
		"all pods, after a missed change": {set: web(3, 9, "3 pods at 4, complete, order 1 from 3 to 9"),
			want: "3 pods at 9, complete"},
		"an operator scales down":         {set: web(1, 5, three, operator), want: "3 pods at 5"},
		"something else has stopped them": {set: web(1, 5, three), want: "3 pods at 5", facts: Facts{Held: true}},
		"scaled down during a resize": {set: web(1, 5, three, build.Status(build.Operation(api.Moving))),
			want: "3 pods at 5, complete"},
		"another order is not done": {set: web(1, 5, "3 pods at 4, complete, order 1 from 7 to 9"),
			want: "3 pods at 5, complete, order 1 from 7 to 9"},
		"a scale-up needs what has begun": {set: web(3, 5, removing), facts: Facts{Begun: []int{2}},
			want: "3 pods at 5, complete, order 1 from 2 to 3"},
		"a Scaler takes over a count":      {set: web(1, 5, three, adopted), want: "3 pods at 5"},
		"an unreadable one does not count": {set: web(1, 5, "", unreadable), want: "1 pods at 5, complete"},
		"another start begins another one": {set: web(2, 5, three, ordinalsFrom(1)), want: "2 pods at 5, complete, start 1"},
		"nothing has changed":              {set: web(3, 4, three), want: three},
		"the template has changed":         {set: web(3, 5, three), want: "3 pods at 5, complete"},
		"scaled up":                        {set: web(5, 5, three), want: "5 pods at 5, complete"},
		"scaled down by one write":         {set: web(1, 5, three), want: ordered},
		"a write before that was missed":   {set: web(1, 6, three), want: "3 pods at 6"},
		"scaled down further": {set: web(1, 5, "3 pods at 4, complete, order 1 from 2 to 3"),
			want: "3 pods at 5, complete, order 2 from 1 to 3"},
		"zero is a stop": {set: web(0, 5, three), want: "3 pods at 5"},
		"zero is a stop, and an earlier order stays": {set: web(0, 5, removing), want: "3 pods at 5, order 1 from 1 to 3"},
		"zero is for good, if the user says so":      {set: web(0, 5, three, atZero), want: "3 pods at 5, complete, order 1 from 0 to 3"},
		"a sleep stops some":                         {set: web(1, 5, three, sleeps), want: "3 pods at 5"},
		"some pods run again after a stop":           {set: web(1, 5, waiting), want: "3 pods at 5"},
		"all pods run again after a stop":            {set: web(3, 5, waiting), want: "3 pods at 5, complete"},
		"a scale-up needs some":                      {set: web(2, 5, removing), want: "3 pods at 5, complete, order 1 from 2 to 3"},
		"a scale-up needs all":                       {set: web(3, 5, removing), want: "3 pods at 5, complete"},
		"a missed change ends an order":              {set: web(1, 6, removing), want: "3 pods at 6"},
		"the cleanup has ended":                      {set: web(1, 4, removing, cleanedUp(1)), want: "1 pods at 4, complete"},
		"an earlier cleanup has ended":               {set: web(1, 4, removing, cleanedUp(0)), want: removing},
		"a Scaler has scaled down":                   {set: web(1, 5, three, scaled(api.Succeeded, 1, "")), want: ordered},
		"a Scaler waits for the cleanup":             {set: web(1, 5, three, scaled(api.PostScaling, 1, `,"cleansUp":true`)), want: ordered},
		"the hooks of a Scaler run":                  {set: web(1, 5, three, scaled(api.PostScaling, 1, "")), want: "3 pods at 5, complete"},
		"the scaling of a Scaler has failed":         {set: web(1, 5, three, scaled(api.Failed, 1, "")), want: "3 pods at 5, complete"},
		"a Scaler will restore the count":            {set: web(1, 5, three, scaled(api.Succeeded, 3, "")), want: "3 pods at 5, complete"},
		"a Scaler is paused":                         {set: web(1, 5, three, scaled(api.Succeeded, 1, `,"paused":true`)), want: "3 pods at 5"},
	} {
		next := Next(row.set, row.facts)
		if got := wordsOf(next); got != row.want {
			t.Errorf("%s: the ledger becomes %s, want %s", name, got, row.want)
		}
		build.Annotation(api.LedgerAnnotation, next.Encode())(row.set)
		if again := Next(row.set, row.facts); again.Encode() != next.Encode() {
			t.Errorf("%s: a second look makes %s of %s", name, wordsOf(again), wordsOf(next))
		}
	}
}

// TestOrderOfUser: an order names pods that nothing requests.
func TestOrderOfUser(t *testing.T) {
	sleeps := record(api.SleepAnnotation, api.KindSleep, api.Asleep, "")
	for name, row := range map[string]struct {
		set        *appsv1.StatefulSet
		from, want string // want is the end of the ledger's words, or a part of the error
	}{
		"pods that are expected back":   {web(1, 4, waiting), "1", "order 1 from 1 to 2147483647"},
		"pods of a stopped set":         {web(0, 4, waiting), "0", "order 1 from 0 to 2147483647"},
		"pods from before the ledger":   {web(1, 4, ""), "1", "order 1 from 1 to 2147483647"},
		"more pods":                     {web(1, 4, "3 pods at 4, order 1 from 2 to 3"), "1", "order 2 from 1 to 2147483647"},
		"beside another cleanup":        {web(1, 4, removing), "7", "a cleanup from ordinal 1 has not ended"},
		"too large a number":            {web(1, 4, waiting), "2147483647", "is not an ordinal"},
		"a pod that runs":               {web(2, 4, waiting), "1", "Scale down first, or name an ordinal from 2"},
		"a pod that a Scaler requests":  {web(1, 4, waiting, scaled(api.Succeeded, 3, "")), "1", "name an ordinal from 3"},
		"no number":                     {web(1, 4, waiting), "one", `"one" is not an ordinal`},
		"no set":                        {web(1, 4, waiting), "1@", "is not for the StatefulSet as it is now"},
		"before the set was scaled":     {web(1, 4, waiting), "1@uid-web/3", "which needs 1@uid-web/4. Run kubectl drydock cleanup"},
		"of a former set":               {web(1, 4, waiting), "1@uid-old/4", "is not for the StatefulSet as it is now"},
		"a negative number":             {web(1, 4, waiting), "-1", "is not an ordinal"},
		"of a set that sleeps":          {web(0, 4, waiting, sleeps), "1", "keeps pods away"},
		"of a set with a paused Scaler": {web(0, 4, waiting, scaled(api.Succeeded, 0, `,"paused":true`)), "1", "keeps pods away"},
	} {
		l := Next(row.set, Facts{})
		written := row.from
		if from, err := strconv.Atoi(written); err == nil {
			written = OrderFrom(row.set, from)
		}
		err := AddOrder(row.set, l, written)
		got := fmt.Sprint(err)
		if err == nil {
			got = string(wordsOf(l))
		}
		if !strings.Contains(got, row.want) {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}

// TestOrderIsAnsweredOnce: an operator or a manifest may write the annotation of an order again and again.
func TestOrderIsAnsweredOnce(t *testing.T) {
	keep := func(set *appsv1.StatefulSet) (answered bool) {
		l := Next(set, Facts{})
		written, asked := Asked(set)
		if asked {
			_ = AddOrder(set, l, written)
		}
		set.Annotations[api.LedgerAnnotation] = l.Encode()
		return asked
	}
	set := web(3, 5, waiting)
	copied := OrderFrom(set, 3)
	if keep(set); Removes(set, 3) {
		t.Fatal("there is no order yet")
	}
	set.Annotations[api.CleanupFromAnnotation] = copied
	if !keep(set) || !Removes(set, 3) || Removes(set, 2) {
		t.Errorf("the order is not carried out: %s", set.Annotations[api.LedgerAnnotation])
	}
	if keep(set) || Due(set) {
		t.Error("a copy is answered again")
	}
	set.Spec.Replicas, set.Generation = ptr.To[int32](5), 6
	keep(set)
	set.Spec.Replicas, set.Generation = ptr.To[int32](0), 7
	if keep(set); Removes(set, 3) || Removes(set, 4) {
		t.Errorf("a copy removes pods that have come back since: %s", set.Annotations[api.LedgerAnnotation])
	}
	delete(set.Annotations, api.LedgerAnnotation) // a manifest has replaced the annotations
	if keep(set); Removes(set, 3) {
		t.Errorf("with a lost ledger, a copy removes pods: %s", set.Annotations[api.LedgerAnnotation])
	}
}

// TestHostileOrderLeavesTheLedgerReadable: a tenant can write anything.
func TestHostileOrderLeavesTheLedgerReadable(t *testing.T) {
	set := web(3, 5, waiting, build.Annotation(api.CleanupFromAnnotation, strings.Repeat("\x01", 10_000)))
	l := Next(set, Facts{})
	written, _ := Asked(set)
	if err := AddOrder(set, l, written); err == nil || len(err.Error()) > 1000 {
		t.Errorf("the answer is %v", err)
	}
	set.Annotations[api.LedgerAnnotation] = l.Encode()
	if api.LoadLedger(set) == nil || Due(set) {
		t.Errorf("the ledger is not readable, or the order is answered again: %s", l.Encode())
	}
}

// TestSetOfAnOwnerKeepsItsClaims: some operators set an owner that is no controller. They delete and stop their sets for their own reasons.
// Invariants: I1.
func TestSetOfAnOwnerKeepsItsClaims(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{"nobody": nil,
		"an owner":     {{APIVersion: "db.example/v1", Kind: "Database", Name: "main", UID: "uid-main"}},
		"a controller": {{APIVersion: "db.example/v1", Kind: "Database", Name: "main", UID: "uid-main", Controller: ptr.To(true)}},
	} {
		set := web(3, 4, "3 pods at 4, complete")
		set.OwnerReferences = owners
		set.Annotations[api.CleanupOnDeleteAnnotation] = "true"
		if got := GoesWithItsData(set); got != (owners == nil) {
			t.Errorf("%s: its deletion orders a cleanup: %t", name, got)
		}
		set.Spec.Replicas, set.Generation = ptr.To[int32](2), 5
		set.Annotations[api.LedgerAnnotation] = Next(set, Facts{}).Encode()
		if got := Removes(set, 2); got != (owners == nil) {
			t.Errorf("%s: a smaller count orders a cleanup: %t", name, got)
		}
	}
}

var unreadable = build.Annotation(api.LedgerAnnotation, `{"set":{"name":"web","uid":"uid-web"},"count":"3"}`)

func ordinalsFrom(start int32) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start} })
}

// record is a record of the set in the phase, with more fields.
func record(annotation string, kind api.Kind, phase api.Phase, fields string) build.Option {
	return build.Annotation(annotation, fmt.Sprintf(`{"version":2,"operation":"%s","kind":"%s","phase":"%s","request":"","attempt":1,`+
		`"set":{"name":"web","uid":"uid-web"},"started":"2026-03-01T12:00:00Z"%s}`, build.ID, kind, phase, fields))
}

func cleanedUp(order int) build.Option {
	cleanup := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup, Phase: api.Succeeded,
		Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now)}, Order: order}
	return build.Annotation(api.CleanupAnnotation, cleanup.Encode())
}

func scaled(phase api.Phase, target int32, fields string) build.Option {
	return record(api.ScaleAnnotation, api.KindScale, phase, fmt.Sprintf(`,"previous":3,"target":%d%s`, target, fields))
}

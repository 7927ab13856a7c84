package pauseowner

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/turns"
	"drydock.dev/test/kit/build"
)

// turnsOf returns a list of turns for at most two movers, one for each namespace.
func turnsOf(t testing.TB, all ...turns.Turn) *turns.List {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.HomeNamespace, Name: api.TurnsConfigMap, ResourceVersion: "11"},
		Data: map[string]string{}}
	for i, turn := range all {
		turn.Since = metav1.NewTime(build.Now.Add(time.Duration(i-10) * time.Second))
		text, err := json.Marshal(turn)
		if err != nil {
			t.Fatal(err)
		}
		config.Data[turn.Operation] = string(text)
	}
	settings := build.Settings()
	settings.Movers = 2
	return turns.Read(config, settings, build.Now)
}

func turn(operation, namespace, set string, movers int, running bool) turns.Turn {
	turn := turns.Turn{Operation: operation, Namespace: namespace, Set: set, Movers: movers}
	if running {
		turn.Until = &metav1.Time{Time: build.Now.Add(time.Hour)}
	}
	return turn
}

// TestResizeWaitsForItsTurn shows a resize while others copy. No owner is paused before the turn.
func TestResizeWaitsForItsTurn(t *testing.T) {
	members := build.Members(api.MemberPending, "data-web-0")
	planned := build.Operation(api.Planned, build.Due(time.Minute), members, build.DerivedID)
	in := func(record *api.Resize, list *turns.List, options ...build.Option) Input {
		options = append([]build.Option{build.Status(record)}, options...)
		return Input{Observed: build.World(build.Set("web", options...)), Namespace: build.Namespace, Settings: build.Settings(),
			Turns: list, Owners: ownersOf(redisOwner(nil))}
	}
	full := func(own ...turns.Turn) *turns.List {
		return turnsOf(t, append([]turns.Turn{turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true)}, own...)...)
	}
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	taken := turn(planned.Operation, build.Namespace, "web", 1, true)
	waiting := build.Stored(Decide(in(planned, full())))
	late := build.Operation(api.Planned, build.Due(-time.Second), members, build.DerivedID)
	rollback := build.Operation(api.Planned, build.Due(time.Minute), build.RollbackOf("x"), members)
	former := turn(build.ID, build.Namespace, "web", 1, true)
	journal := in(waiting, turnsOf(t, former, own))
	journal.Journals = append(journal.Journals, build.Journal(build.Operation(api.Finishing, members)))
	stranger := build.Operation(api.Planned, build.Due(time.Minute), members) // the id does not derive from the set
	check(t, map[string]Input{
		"no other set copies":                                  in(planned, turnsOf(t)),
		"the limit is reached":                                 in(planned, full()),
		"the record was written, and the list was not":         in(waiting, full()),
		"it still waits":                                       in(waiting, full(own)),
		"its turn has come":                                    in(waiting, turnsOf(t, turn("1", "a", "x", 1, true), own)),
		"its turn has come, and another one is next":           in(waiting, turnsOf(t, own, turn("3", "b", "y", 1, false))),
		"it has taken its turn, and the record says it waits":  in(waiting, full(taken)),
		"it has its turn":                                      in(planned, full(taken)),
		"it is aborted while it waits":                         in(waiting, full(own), build.Annotation(api.AbortAnnotation, "")),
		"its set opts out while it waits":                      in(waiting, full(own), build.Label(api.ManagedLabel, "")),
		"its deadline passes without a turn":                   in(late, full()),
		"its deadline passes, and there is no list":            in(late, nil),
		"a rollback needs no turn":                             in(rollback, full()),
		"there is no list":                                     in(planned, nil),
		"the list was removed while it waited":                 in(waiting, nil),
		"the turn of the set's former operation has not ended": in(waiting, turnsOf(t, former, own)),
		"it has its turn, and so has a former operation":       in(waiting, turnsOf(t, former, taken)),
		"the set's former operation has a journal":             journal,
		"its id is that of another set's operation":            in(stranger, turnsOf(t, turn(stranger.Operation, "b", "y", 1, false))),
	})
}

// TestTurnEndsWithTheResize shows what becomes of the turn once the operation is over. The next set is woken, unless an owner must be
// resumed first.
func TestTurnEndsWithTheResize(t *testing.T) {
	taken := turn(build.ID, build.Namespace, "web", 1, true)
	next, other := turn("3", "b", "y", 1, false), turn("4", build.Namespace, "db", 1, true)
	in := func(record *api.Resize, list *turns.List) Input {
		return Input{Observed: build.World(build.Set("web", build.Status(record))), Namespace: build.Namespace, Settings: build.Settings(),
			Turns: list}
	}
	owned := in(build.Operation(api.Succeeded), turnsOf(t, taken, next))
	owned.OwnerRecords = []OwnerRecord{ownerRecordOf(build.ID, redisOwner(heldFor(build.ID)))}
	gone := Input{Observed: build.World(), Namespace: build.Namespace, Turns: turnsOf(t, taken)}
	gone.Name = "web"
	check(t, map[string]Input{
		"it has succeeded":                     in(build.Operation(api.Succeeded), turnsOf(t, taken)),
		"it has failed, and another one waits": in(build.Operation(api.Failed), turnsOf(t, taken, next)),
		"it has no turn":                       in(build.Operation(api.Succeeded), turnsOf(t, other, next)),
		"it still runs":                        in(build.Operation(api.Moving), turnsOf(t, taken, next)),
		"its owner must be resumed first":      owned,
		"the set is gone":                      gone,
		"the set is gone, its journal is not": {Observed: build.World(build.Journal(build.Operation(api.Moving))), Namespace: build.Namespace,
			Turns: turnsOf(t, taken)},
		"a turn of an older operation of the set": in(build.Operation(api.Succeeded), turnsOf(t, turn("old", build.Namespace, "web", 1, true))),
	})
}

// TestResizeReturnsItsTurn shows a resize whose members wait for an approval. Others have its turn until then.
func TestResizeReturnsItsTurn(t *testing.T) {
	waiting := build.Operation(api.Moving, build.Members(api.MemberWaiting, "data-web-0"), build.DerivedID, build.Due(time.Hour),
		func(r *api.Resize) { r.TurnReturned = true })
	approve := build.Annotation(api.CutoverAnnotation, api.CutoverApprove)
	approved := build.Annotation(api.ApproveAnnotation, waiting.Operation)
	in := func(record *api.Resize, list *turns.List, options ...build.Option) Input {
		set := build.Set("web", append([]build.Option{build.Status(record), approve}, options...)...)
		return Input{Observed: build.World(set), Namespace: build.Namespace, Settings: build.Settings(), Turns: list}
	}
	taken, own := turn(waiting.Operation, build.Namespace, "web", 1, true), turn(waiting.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	next := turn("3", "b", "y", 1, false)
	full := func(own ...turns.Turn) *turns.List {
		return turnsOf(t, append([]turns.Turn{turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true)}, own...)...)
	}
	keeps := waiting.Clone()
	keeps.TurnReturned = false
	grown := waiting.Clone()
	grown.Members = append(grown.Members, api.Member{Ordinal: 1, Phase: api.MemberCopying})
	uncopied := waiting.Clone()
	uncopied.Members[0].Phase = api.MemberPending
	stored := build.Stored(Decide(in(waiting, full(), approved)))
	recreated := waiting.Clone()
	recreated.Operation = build.ID
	journal := in(recreated, full(), build.Annotation(api.ApproveAnnotation, build.ID))
	journal.Journals = append(journal.Journals, build.Journal(recreated))
	check(t, map[string]Input{
		"the approval is missing":                                   in(waiting, turnsOf(t, taken, next)),
		"the approval is missing, and another resize is next":       in(waiting, turnsOf(t, turn("1", "a", "x", 1, true), taken, next)),
		"the approval is missing, and the turn has ended":           in(waiting, turnsOf(t, next)),
		"the approval is missing again while it waits for its turn": in(waiting, full(own)),
		"the approval is missing again: its time begins anew":       in(stored, full(own)),
		"the approval is missing again, and the list is gone":       in(stored, nil),
		"the approval is missing, and there is no list":             in(waiting, nil),
		"it is aborted without an approval":                         in(waiting, turnsOf(t, taken), build.Annotation(api.AbortAnnotation, "")),
		"a member is under way":                                     in(keeps, turnsOf(t, taken, next)),
		"the approval is missing, and another member is next":       in(uncopied, turnsOf(t)),
		"the approval is missing, and another member is copied":     in(grown, turnsOf(t)),
		"it is approved, and a turn is free":                        in(waiting, turnsOf(t), approved),
		"it is approved, and the limit is reached":                  in(waiting, full(), approved),
		"it is approved, and still waits":                           in(stored, full(own), approved),
		"it is approved, and its turn has come":                     in(stored, turnsOf(t, own), approved),
		"it is approved before its turn has ended":                  in(waiting, full(taken), approved),
		"it is approved, and there is no list":                      in(waiting, nil, approved),
		"it has created its set again, and waits like the others":   journal,
	})
}

// TestTurnsAreReadOnlyWhereTheyMatter: most events of pause-owner concern no copy.
func TestTurnsAreReadOnlyWhereTheyMatter(t *testing.T) {
	members := build.Members(api.MemberPending, "data-web-0")
	for name, row := range map[string]struct {
		set  build.Option
		want bool
	}{
		"a planned copy":     {build.Status(build.Operation(api.Planned, members, build.DerivedID)), true},
		"a planned rollback": {build.Status(build.Operation(api.Planned, build.RollbackOf("x"), members)), false},
		"a copy whose deadline has passed": {build.Status(build.Operation(api.Planned, build.Due(-time.Second), members, build.DerivedID)),
			false},
		"a forged id":    {build.Status(build.Operation(api.Planned, members)), false},
		"a running copy": {build.Status(build.Operation(api.Moving, members)), false},
		"a copy that has returned its turn": {build.Status(build.Operation(api.Moving, members, func(r *api.Resize) { r.TurnReturned = true })),
			true},
		"an ended copy": {build.Status(build.Operation(api.Succeeded, members)), true},
	} {
		in := Input{Observed: build.World(build.Set("web", row.set))}
		if got := needsTurns(in, operation.Of(in.Set)); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestUnreadableTurnsKeepNoOwnerPaused: after an update of Drydock alone, pause-owner has no right to read the list. Owners must be
// resumed, and resizes must end, nevertheless.
func TestUnreadableTurnsKeepNoOwnerPaused(t *testing.T) {
	limited := build.Settings()
	limited.Movers = 1
	observe := func(record *api.Resize, handler http.Handler, options ...build.Option) (Input, error) {
		lists := build.EmptyLists()
		lists["statefulsets"] = []metav1.Object{build.Set("web", append(options, build.Status(record))...)}
		lists["controllerrevisions"] = []metav1.Object{build.Journal(build.Operation(api.Finishing))}
		lists["configmaps"] = []metav1.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.HomeNamespace,
			Name: api.TurnsConfigMap}}}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if handler != nil && strings.HasSuffix(r.URL.Path, api.TurnsConfigMap) {
				handler.ServeHTTP(w, r)
				return
			}
			lists.ServeHTTP(w, r)
		}))
		defer server.Close()
		client := kube.NewClient(&rest.Config{Host: server.URL})
		f := New(client, limited, nil, slog.New(slog.DiscardHandler))
		return f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	}
	members := build.Members(api.MemberPending, "data-web-0")
	ended := build.Operation(api.Succeeded, members)
	if in, err := observe(ended, http.HandlerFunc(forbidden)); err != nil || in.Turns != nil || len(in.Journals) == 0 {
		t.Errorf("an ended resize: %v, %d journals", err, len(in.Journals))
	}
	ignores := build.Annotation(api.OwnerPolicyAnnotation, "ignore")
	planned := build.Operation(api.Planned, members, build.DerivedID)
	if in, err := observe(planned, nil, ignores); err != nil || in.Turns == nil || len(in.Journals) == 0 {
		t.Errorf("a planned resize without owners: %v, %d journals", err, len(in.Journals))
	}
	if _, err := observe(planned, nil, ignores, build.Annotation(api.AbortAnnotation, "")); err != nil {
		t.Errorf("an aborted resize: %v", err)
	}
}

// TestUnwritableTurnsDelayNoResize: a policy, a webhook or "immutable: true" may refuse writes of the list.
func TestUnwritableTurnsDelayNoResize(t *testing.T) {
	limited, planned := plannedUnderLimit()
	set := build.Set("web", build.Status(planned), build.Annotation(api.OwnerPolicyAnnotation, "ignore"))
	lists := listsWithTurns(set)
	var patched []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			patched = append(patched, path.Base(r.URL.Path))
			forbidden(w, r)
			return
		}
		lists.ServeHTTP(w, r)
	}))
	defer server.Close()
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), limited, nil, slog.New(slog.DiscardHandler))
	e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1")
	_, _ = f.Handle(t.Context(), e) // fails, because the server rejects the write of the set, too, and that of the rejection
	if want := []string{api.TurnsConfigMap, "web", "web"}; !slices.Equal(patched, want) {
		t.Errorf("pause-owner writes to %v, want %v", patched, want)
	}
}

// plannedUnderLimit returns settings with a limit, and the record of a resize that needs a turn.
func plannedUnderLimit() (api.Settings, *api.Resize) {
	limited := build.Settings()
	limited.Movers = 1
	return limited, build.Operation(api.Planned, build.Members(api.MemberPending, "data-web-0"), build.DerivedID,
		func(s *api.Resize) { s.Deadline = operation.Moment(time.Now().Add(time.Hour)) })
}

// listsWithTurns returns the set and an empty list of turns.
func listsWithTurns(set metav1.Object) build.Lists {
	lists := build.EmptyLists()
	lists["statefulsets"] = []metav1.Object{set}
	lists["configmaps"] = []metav1.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.HomeNamespace,
		Name: api.TurnsConfigMap, UID: "uid-turns", ResourceVersion: "3"}}}
	return lists
}

// allowingNamespace is the namespace of the tests, which lets Drydock pause its owners.
func allowingNamespace() metav1.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: build.Namespace,
		Labels: map[string]string{api.PauseOwnersLabel: string(api.ConsentToPause)}}}
}

func forbidden(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
}

// TestRejectionThatNoDryRunForesees: a webhook rejects the pause of an owner, and accepts its dry run. The reason of the refusal says so,
// because a dry run then does not show whether the sleep may be tried again.
func TestRejectionThatNoDryRunForesees(t *testing.T) {
	for name, row := range map[string]struct {
		rejectsDryRun bool
		want          api.Reason
	}{
		"it accepts dry runs": {false, api.Rejected},
		"it rejects them":     {true, api.OwnerNotPausable},
	} {
		t.Run(name, func(t *testing.T) {
			owner := redisOwner(nil)
			set := build.Set("web", build.WithSleep(dueSleep()), build.ControlledBy(kind, "main"))
			set.OwnerReferences[0].APIVersion, set.OwnerReferences[0].UID = "redis.redis.opstreelabs.in/v1beta2", "uid-main"
			lists, stored := build.EmptyLists(), ""
			lists["statefulsets"], lists["namespaces"] = []metav1.Object{set}, []metav1.Object{allowingNamespace()}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				name, isDryRun := path.Base(r.URL.Path), r.URL.Query().Get("dryRun") != ""
				switch {
				case r.Method == http.MethodPatch && name == "main" && isDryRun && !row.rejectsDryRun:
					_ = json.NewEncoder(w).Encode(owner)
				case r.Method == http.MethodPatch:
					if body, _ := io.ReadAll(r.Body); name == "web" && stored == "" {
						stored = string(body)
					}
					forbidden(w, r)
				case r.Method == http.MethodPost:
					w.WriteHeader(http.StatusCreated)
					_, _ = io.Copy(w, r.Body)
				case name == "main":
					_ = json.NewEncoder(w).Encode(owner)
				default:
					lists.ServeHTTP(w, r)
				}
			}))
			defer server.Close()
			f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), owners.BuiltIn(), slog.New(slog.DiscardHandler))
			_, _ = f.Handle(t.Context(), events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
			if !strings.Contains(stored, `\"reason\":\"`+string(row.want)+`\"`) {
				t.Errorf("the refusal is not stored for %s: %s", row.want, stored)
			}
		})
	}
}

// TestRejectedOwnerEndsResizeAlthoughTurnsCannotBeWritten: each event can meet both rejections.
func TestRejectedOwnerEndsResizeAlthoughTurnsCannotBeWritten(t *testing.T) {
	limited, planned := plannedUnderLimit()
	set := build.Set("web", build.Status(planned), build.ControlledBy(kind, "main"))
	set.OwnerReferences[0].APIVersion, set.OwnerReferences[0].UID = "redis.redis.opstreelabs.in/v1beta2", "uid-main"
	owner := redisOwner(nil)
	lists := listsWithTurns(set)
	lists["namespaces"] = []metav1.Object{allowingNamespace()}
	var patched []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch name := path.Base(r.URL.Path); {
		case r.Method == http.MethodPatch:
			patched = append(patched, name)
			forbidden(w, r)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			_, _ = io.Copy(w, r.Body)
		case name == "main":
			_ = json.NewEncoder(w).Encode(owner)
		default:
			lists.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), limited, owners.BuiltIn(), slog.New(slog.DiscardHandler))
	_, _ = f.Handle(t.Context(), events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	if want := []string{api.TurnsConfigMap, "main", "web", "web"}; !slices.Equal(patched, want) {
		t.Errorf("pause-owner writes to %v, want %v", patched, want)
	}
}

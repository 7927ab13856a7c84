package sift

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// TestSweepWakesOnlyResizesWhoseTurnHasCome: a thousand resizes may wait, and an event for each of them would start many functions for
// nothing.
func TestSweepWakesOnlyResizesWhoseTurnHasCome(t *testing.T) {
	recordOf := func(set string) *api.Resize {
		return build.Operation(api.Planned, build.Members(api.MemberPending, "data-"+set+"-0"), func(record *api.Resize) {
			record.Set, record.Reason = api.SetRef{Name: set, UID: types.UID("uid-" + set)}, api.TurnWaits
		}, build.DerivedID)
	}
	waits := func(set string, options ...build.Option) metav1.Object {
		return build.Set(set, append(options, build.Status(recordOf(set)))...)
	}
	forged := recordOf("b")
	forged.Operation = recordOf("a").Operation
	list := func(entries ...string) metav1.Object {
		config := &corev1.ConfigMap{Data: map[string]string{}}
		config.Namespace, config.Name = api.HomeNamespace, api.TurnsConfigMap
		for i, entry := range entries {
			set := strings.TrimRight(entry, "*+")
			operation := recordOf(set).Operation
			if set == "web" {
				operation = build.ID
			}
			config.Data[operation] = fmt.Sprintf(`{"namespace":"%s","set":"%s","movers":1,"since":"2026-01-01T00:00:0%dZ"}`,
				build.Namespace, set, i)
			if strings.HasSuffix(entry, "+") {
				offered := time.Now().UTC().Format(time.RFC3339)
				config.Data[operation] = strings.TrimSuffix(config.Data[operation], "}") + `,"offered":"` + offered + `"}`
			}
			if strings.HasSuffix(entry, "*") {
				config.Data[operation] = strings.TrimSuffix(config.Data[operation], "}") + `,"until":"2200-01-01T00:00:00Z"}`
			}
		}
		return config
	}
	type sets = []metav1.Object
	journal := build.Journal(build.Operation(api.Moving))
	for name, row := range map[string]struct {
		sets   []metav1.Object
		list   metav1.Object
		others build.Lists
		want   string
	}{
		"the first of three": {sets{waits("a"), waits("b"), waits("c")}, list("a+", "b", "c"), nil, "a: pause-owner"},
		"the first of three, and another one, because the list has no offer": {sets{waits("a"), waits("b"), waits("c")},
			list("a", "b", "c"), nil, "a: pause-owner, c: pause-owner"},
		"none, because another one copies; its operation is over": {sets{waits("a")}, list("a", "x*"), nil, "x: pause-owner"},
		"a resize that the list does not have": {sets{waits("a"), waits("b")}, list("a"), nil,
			"a: pause-owner, b: pause-owner"},
		"a resize whose id another set has forged": {sets{waits("a"), build.Set("b", build.Status(forged))}, list(), nil,
			"a: pause-owner, b: pause-owner"},
		"a resize that has taken its turn": {sets{waits("a")}, list("a*"), nil, "a: pause-owner"},
		"a turn whose operation only a journal has": {nil, list("web*"), build.Lists{"controllerrevisions": {journal}},
			"web: restore backup pause-owner"},
		"an aborted resize": {sets{waits("a", build.Annotation(api.AbortAnnotation, "")), waits("b")}, list("a+", "b"), nil,
			"a: pause-owner restore"},
		"without a list, all": {sets{waits("a"), waits("b")}, nil, nil, "a: pause-owner, b: pause-owner"},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["statefulsets"] = row.sets
			if row.list != nil {
				lists["configmaps"] = []metav1.Object{row.list}
			}
			for plural, objects := range row.others {
				lists[plural] = objects
			}
			to := &sentEvents{}
			tick := event.New()
			tick.SetType(events.Tick)
			sift := New(kube.NewClient(lists.Serve(t)), api.Settings{Movers: 1}, to, slog.New(slog.DiscardHandler))
			if _, err := sift.Handle(t.Context(), tick); err != nil {
				t.Fatal(err)
			}
			slices.Sort(to.events)
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("the sweep wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestSweepWakesNoResizeThatAFullListRefuses: a tenant may have requested more resizes than the list takes.
func TestSweepWakesNoResizeThatAFullListRefuses(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{}}
	config.Namespace, config.Name = api.HomeNamespace, api.TurnsConfigMap
	for i := range 1500 {
		config.Data[fmt.Sprintf("%012d", i)] = fmt.Sprintf(`{"namespace":"%s","set":"set-%d","movers":1,"until":"2200-01-01T00:00:00Z"}`,
			build.Namespace, i)
	}
	lists := build.EmptyLists()
	lists["configmaps"] = []metav1.Object{config}
	sift := New(kube.NewClient(lists.Serve(t)), api.Settings{Movers: 1}, &sentEvents{}, slog.New(slog.DiscardHandler))
	found := newFindings(build.Now)
	for operation := range config.Data {
		found.active[operationKey{build.Namespace, operation}] = api.KindResize
	}
	late := noticeOf(build.Set("late"), []api.Function{api.PauseOwner})
	found.waitingTurns["late"] = &late
	if err := sift.sweepTurns(t.Context(), build.Now, found); err != nil || len(found.order) != 0 {
		t.Errorf("%v, %v", found.order, err)
	}
}

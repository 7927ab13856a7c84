package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/eventfilter"
	exact "knative.dev/eventing/pkg/eventfilter/attributes"
	"knative.dev/eventing/pkg/eventfilter/subscriptionsapi"

	"drydock.dev/deploy"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

// shippedTriggers returns the Triggers in deploy/.
func shippedTriggers(t *testing.T) []*eventingv1.Trigger {
	t.Helper()
	triggers, err := LoadTriggers(deploy.Triggers)
	if err != nil {
		t.Fatal(err)
	}
	return triggers
}

func newEvent(eventType string, extensions ...string) event.Event {
	e := event.New()
	e.SetID("1")
	e.SetSource("test")
	e.SetType(eventType)
	for i := 0; i < len(extensions); i += 2 {
		e.SetExtension(extensions[i], extensions[i+1])
	}
	return e
}

// TestShippedTriggersRouteEvents: Knative's filters decide which function gets an event.
func TestShippedTriggersRouteEvents(t *testing.T) {
	web := events.Ref{Namespace: "n", Name: "web", UID: "u", Operation: "o"}
	step := func(eventType string) event.Event { return events.NewStep("try", eventType, web) }
	concerns := func(text string) event.Event { return newEvent(events.ObjectChanged, "concerns", text) }
	for name, row := range map[string]struct {
		event event.Event
		want  []string
	}{
		"an object is added":               {newEvent(events.SourceAdd), []string{"sift"}},
		"an object changes":                {newEvent(events.SourceUpdate), []string{"sift"}},
		"an object is deleted":             {newEvent(events.SourceDelete), []string{"sift"}},
		"an event in reference mode":       {newEvent("dev.knative.apiserver.ref.update"), nil},
		"the tick":                         {newEvent(events.Tick), []string{"sift"}},
		"a type that begins like the tick": {newEvent(events.Tick + ".x"), nil},
		"sift wakes one function":          {events.NewChanged(web, "s", api.Backup), []string{"backup"}},
		"sift wakes two functions": {events.NewChanged(web, "s", api.DetectResize, api.Restore),
			[]string{"detect-resize", "restore"}},
		"sift wakes all functions": {concerns("backup cleanup-pod detect-resize grow-volumes idle-timeout pause-owner " +
			"restore scale"), []string{"backup", "cleanup-pod", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner",
			"restore", "scale"}},
		"a name within a longer one":           {concerns("backup-verify old-restore detect-resize-v2 xpause-owner cleanup-pods"), nil},
		"a longer name beside a correct one":   {concerns("backup-verify restore"), []string{"restore"}},
		"concerns no function":                 {concerns("-"), nil},
		"concerns are missing":                 {newEvent(events.ObjectChanged), nil},
		"concerns contain a quote":             {concerns("' OR TRUE OR '"), nil},
		"concerns contain a wildcard":          {concerns("%"), nil},
		"concerns in an event of another type": {newEvent("dev.drydock.party", "concerns", "backup"), nil},
		"a resize is requested":                {step(events.ResizeRequested), []string{"detect-resize"}},
		"a retry": {step(events.Retry), []string{"cleanup-pod", "detect-resize", "idle-timeout",
			"scale"}},
		"a resize is detected":           {step(events.ResizeDetected), []string{"pause-owner"}},
		"the owner consents":             {step(events.OwnerPaused), []string{"backup", "scale"}},
		"the owner consents to a resize": {newEvent(events.OwnerPaused, "purpose", "resize"), []string{"backup"}},
		"the owner consents to a sleep":  {newEvent(events.OwnerPaused, "purpose", "sleep"), []string{"scale"}},
		"a set is active":                {step(events.Activity), []string{"idle-timeout"}},
		"a group is woken":               {newEvent(events.Wake, "group", "orders", "namespace", "n"), []string{"idle-timeout", "scale"}},
		"a sleep is requested":           {step(events.Sleep), []string{"idle-timeout", "scale"}},
		"a sleep is decided":             {step(events.SleepDecided), []string{"pause-owner"}},
		"a wake-up is decided":           {step(events.WakeDecided), []string{"pause-owner", "scale"}},
		"a set is scaled":                {step(events.Scaled), []string{"pause-owner"}},
		"the copy is done":               {step(events.BackupCompleted), []string{"restore"}},
		"a member has changed":           {step(events.MemberChanged), []string{"backup"}},
		"the swap is done":               {step(events.RestoreCompleted), []string{"pause-owner"}},
		"the owner was resumed":          {step(events.OwnerResumed), nil},
		"a failure":                      {step(events.OperationFailed), []string{"pause-owner"}},
		"a cleanup is done":              {step(events.CleanupCompleted), nil},
		"an unknown type":                {newEvent("com.example.event"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, trigger := range shippedTriggers(t) {
				filter := subscriptionsapi.CreateSubscriptionsAPIFilters(zap.NewNop(), trigger.Spec.Filters)
				if filter.Filter(context.Background(), row.event) != eventfilter.FailFilter {
					got = append(got, trigger.Spec.Subscriber.Ref.Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// routed returns the functions whose Trigger the filter of one kind passes the event to.
func routed(t *testing.T, e event.Event, filterOf func(*eventingv1.Trigger) eventfilter.Filter) []string {
	t.Helper()
	var names []string
	for _, trigger := range shippedTriggers(t) {
		if filterOf(trigger).Filter(context.Background(), e) != eventfilter.FailFilter {
			names = append(names, trigger.Spec.Subscriber.Ref.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestAddressesRouteLikeExpressions: a Broker that ignores spec.filters compares the attributes of spec.filter. Both select the same
// functions for every event that Drydock creates.
func TestAddressesRouteLikeExpressions(t *testing.T) {
	byExpression := func(trigger *eventingv1.Trigger) eventfilter.Filter {
		return subscriptionsapi.CreateSubscriptionsAPIFilters(zap.NewNop(), trigger.Spec.Filters)
	}
	byAttributes := func(trigger *eventingv1.Trigger) eventfilter.Filter {
		return exact.NewAttributesFilter(trigger.Spec.Filter.Attributes)
	}
	all := []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.GrowVolumes, api.IdleTimeout, api.PauseOwner, api.Restore,
		api.ScaleFunction}
	web := events.Ref{Namespace: "n", Name: "web", UID: "u", Operation: "o"}
	list := []event.Event{events.NewChanged(web, "s", all...), events.NewFromUser(events.ObjectChanged, web, "1", "stranger")}
	for _, function := range all {
		list = append(list, events.NewChanged(web, "s", function), events.NewFromUser(events.ObjectChanged, web, "1", function))
	}
	for _, eventType := range events.OwnTypes() {
		for _, purpose := range []string{"", "resize", "rollback", "sleep", "cleanup", "scale"} {
			ref := web
			ref.Purpose = purpose
			list = append(list, events.NewStep(api.Restore, eventType, ref), events.NewFromUser(eventType, ref, "1"))
		}
		if events.IsOrder(eventType) {
			continue // it is never sent again
		}
		letter := api.UndeliveredEvent{Type: eventType, Source: "s", ID: "1", Extensions: map[string]string{"concerns": "backup restore"}}
		again, err := events.Resend(letter, web)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, again)
	}
	for _, eventType := range []string{events.Activity, events.Wake, events.Sleep} {
		e, err := events.NewForGroup(eventType, "n", "orders", "1")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	for _, e := range list {
		want, got := routed(t, e, byExpression), routed(t, e, byAttributes)
		if e.Type() == events.ScaleHookRequested { // its answer copies the extensions; scale only checks the set
			want = []string{"scale"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-expression +attributes)\n%s", e, diff)
		}
	}
	e := newEvent(events.SourceUpdate, "forsift", "true") // config/overlays/rabbitmq adds the extension
	if diff := cmp.Diff(routed(t, e, byExpression), routed(t, e, byAttributes)); diff != "" {
		t.Error(diff)
	}
}

// TestShippedTriggersDeliverySettings: an event is retried for most of a minute, and then goes to the dead-letter function.
func TestShippedTriggersDeliverySettings(t *testing.T) {
	for _, trigger := range shippedTriggers(t) {
		d := trigger.Spec.Delivery
		got := []any{*d.Retry, string(*d.BackoffPolicy), *d.BackoffDelay, *d.Timeout, d.DeadLetterSink.Ref.Name}
		if diff := cmp.Diff([]any{int32(8), "exponential", "PT0.2S", "PT60S", "dead-letter"}, got); diff != "" {
			t.Errorf("trigger %s (-want +got)\n%s", trigger.Name, diff)
		}
	}
}

// TestInvalidTriggersAreRefused: LoadTriggers refuses manifests that Knative's webhook refuses, and incomplete deliveries.
func TestInvalidTriggersAreRefused(t *testing.T) {
	good, err := deploy.Triggers.ReadFile("backup/triggers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ from, to, want string }{
		"as shipped":                 {"", "", ""},
		"an unknown field":           {"  broker: default", "  broker: default\n  brooker: x", `unknown field "brooker"`},
		"no broker":                  {"  broker: default", "", "missing field(s): spec.broker"},
		"an invalid expression":      {"EXISTS concerns", "EXISTS AND", "invalid value"},
		"two dialects in one filter": {"    - cesql:", "    - exact: {type: x}\n      cesql:", "multiple dialects"},
		"a retry without policy":     {"    backoffPolicy: exponential\n", "", "spec.delivery needs"},
		"an invalid delay":           {"PT0.2S", "soon", "invalid value: soon"},
		"no namespace":               {"  namespace: drydock\n  annotations", "  annotations", "namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			text := string(good)
			if row.from != "" {
				if text = strings.Replace(text, row.from, row.to, 1); text == string(good) {
					t.Fatalf("the manifest has no %q to replace", row.from)
				}
			}
			_, err := LoadTriggers(fstest.MapFS{"backup/triggers.yaml": {Data: []byte(text)}})
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

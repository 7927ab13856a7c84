package scalehooks

import (
	"log/slog"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// counted returns a set with a cleanup template and so many replicas. By its ledger, three pods ran before the latest change of its spec.
func counted(replicas int32, options ...build.Option) *appsv1.StatefulSet {
	before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true}
	set := build.Set("web", append([]build.Option{build.Template("data", "1Gi", "fixed"), build.Replicas(replicas),
		build.Annotation(api.CleanupTemplateAnnotation, "{}")}, options...)...)
	before.Generation = set.Generation - 1
	if _, has := set.Annotations[api.LedgerAnnotation]; !has {
		build.Annotation(api.LedgerAnnotation, before.Encode())(set)
	}
	return set
}

// warningOf returns the message of the plan's first Warning, or "".
func warningOf(p plan.Plan) string {
	for _, a := range p.Actions {
		if a.Note.Warning {
			return a.Note.Message
		}
	}
	return ""
}

// TestScaleDownOrdersRemoval: a record of another operation keeps the claims. It may be the only trace of it.
// Invariants: I1.
func TestScaleDownOrdersRemoval(t *testing.T) {
	db := build.Set("db", build.UID("uid-db"), build.ControlledBy("Database", "main"))
	sleep := build.Sleep(api.Asleep, build.OwnerStops())
	sleepOfDB := build.Sleep(api.Asleep, build.OwnerStops(), func(s *api.Sleep) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })
	owner := api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1", Kind: "Database", Resource: "databases", Name: "main",
		UID: "uid-main"}
	stopped := owner
	stopped.Stopped = true
	controlled := []build.Option{build.ControlledBy("Database", "main")}
	for name, row := range map[string]struct {
		record  metav1.Object
		options []build.Option
		orders  bool
	}{
		"nothing holds the pods":                        {nil, nil, true},
		"the set sleeps":                                {resources.MakeSleepRecord(counted(1), sleep), nil, false},
		"another set sleeps":                            {resources.MakeSleepRecord(db, sleepOfDB), nil, true},
		"its operator is stopped":                       {resources.MakeOwnerRecord(web(1), sleep, stopped), controlled, false},
		"an operator is stopped for another set":        {resources.MakeOwnerRecord(db, sleepOfDB, stopped), controlled, false},
		"that operator cannot have this set":            {resources.MakeOwnerRecord(db, sleepOfDB, stopped), nil, true},
		"an operator is paused, not stopped, elsewhere": {resources.MakeOwnerRecord(db, sleepOfDB, owner), controlled, true},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["statefulsets"] = []metav1.Object{counted(1, row.options...)}
			if row.record != nil {
				lists["controllerrevisions"] = []metav1.Object{row.record}
			}
			in, err := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
				events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil {
				t.Fatal(err)
			}
			p := Decide(in)
			ledger, warning := build.StoredLedger(p), warningOf(p)
			if ledger == nil || (ledger.Removing != nil) != row.orders || ledger.Complete != row.orders {
				t.Errorf("the ledger becomes %+v", ledger)
			}
			if told := strings.Contains(warning, "kubectl drydock cleanup -n shop sts/web --from 1"); told == row.orders {
				t.Errorf("the warning is %q", warning)
			}
		})
	}
}

// TestNewScalerHoldsPods: the set has lost the record of its Scaler, and another client scales it down. The Scaler restores its count.
// Invariants: I1.
func TestNewScalerHoldsPods(t *testing.T) {
	for name, row := range map[string]struct {
		scalers []*v1alpha1.Scaler
		orders  bool
	}{"no Scaler": {nil, true}, "a Scaler without a record": {[]*v1alpha1.Scaler{pilot()}, false}} {
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: counted(1), Scalers: row.scalers})
		if l := build.StoredLedger(p); l == nil || (l.Removing != nil) != row.orders {
			t.Errorf("%s: the ledger becomes %+v", name, l)
		}
	}
}

// TestOrderOfUserIsCarriedOut: the request goes, and a wrong one gets an answer.
func TestOrderOfUserIsCarriedOut(t *testing.T) {
	before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Generation: 1}
	incomplete := build.Annotation(api.LedgerAnnotation, before.Encode())
	for from, row := range map[string]struct {
		orders  bool
		warning string
	}{"1": {true, ""}, "0": {false, "nothing is cleaned up: pod web-0 is requested"}} {
		set := counted(1, incomplete, build.Annotation(api.CleanupFromAnnotation, from))
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set})
		ledger, warning := build.StoredLedger(p), warningOf(p)
		if (ledger.Removing != nil) != row.orders || !strings.Contains(warning, row.warning) {
			t.Errorf("from %s: %s: %+v, warning %q", from, p, ledger, warning)
		}
		if !strings.Contains(p.String(), "-cleanup-from") {
			t.Errorf("from %s: the request stays: %s", from, p)
		}
	}
}

// TestLedgerGoesWithTheTemplate: nothing else would remove it.
func TestLedgerGoesWithTheTemplate(t *testing.T) {
	for template, goes := range map[string]bool{"": true, "{}": false} {
		set := counted(3, build.Annotation(api.CleanupTemplateAnnotation, template))
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set})
		if strings.Contains(p.String(), "-members") != goes {
			t.Errorf("with template %q: %s", template, p)
		}
	}
}

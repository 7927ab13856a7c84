package scale

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
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
	db := build.Set("db", build.UID("uid-db"))
	ofDB := build.Stop(func(s *api.Stop) { s.Set = api.SetRef{Name: "db", UID: "uid-db"} })
	for name, row := range map[string]struct {
		record  metav1.Object
		options []build.Option
		orders  bool
	}{
		"nothing holds the pods": {nil, nil, true},
		"the set is stopped":     {resources.MakeStopRecord(counted(1), build.Stop()), nil, false},
		"the set is resized":     {resources.MakeJournal(counted(1), build.Operation(api.Moving)), nil, false},
		"another set is stopped": {resources.MakeStopRecord(db, ofDB), nil, true},
		"it has an operator":     {nil, []build.Option{build.ControlledBy("Database", "main")}, false},
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
	}{"1": {true, ""}, "0": {false, "nothing is cleaned up: the StatefulSet has the ordinals from 0 to before 1"}} {
		set := counted(1, incomplete)
		n, err := strconv.Atoi(from)
		if err != nil {
			t.Fatal(err)
		}
		set.Annotations[api.CleanupFromAnnotation] = members.OrderFrom(set, n)
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

// TestRejectedLedgerKeepsNoScaler: the API server rejects the write of the ledger. Without a Scaler, the event fails.
func TestRejectedLedgerKeepsNoScaler(t *testing.T) {
	for name, scalers := range map[string][]*v1alpha1.Scaler{"no Scaler": nil, "a Scaler": {pilot()}} {
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: counted(3), Scalers: scalers, Rejected: "forbidden"})
		if again := build.StoredLedger(p) != nil; again == (scalers != nil) {
			t.Errorf("%s: %s", name, p)
		}
	}
}

// TestScaleUpKeepsWhatHasBegun: an ordinal with a cleanup pod stays in the order. Another one leaves it.
func TestScaleUpKeepsWhatHasBegun(t *testing.T) {
	for name, row := range map[string]struct {
		set  string
		want *api.Span
	}{"its cleanup pod runs": {"web", &api.Span{Start: 2, End: 3}}, "that of another set runs": {"db", nil}} {
		before := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true, Orders: 1,
			Removing: &api.Removal{Span: api.Span{Start: 1, End: 3}, Order: 1}}
		set := counted(3)
		before.Generation = set.Generation - 1
		build.Annotation(api.LedgerAnnotation, before.Encode())(set)
		pod := build.Pod("web-2", nil, build.LinkOf(api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace,
			Set: api.SetRef{Name: row.set, UID: "uid-web"}}), build.Label(api.OperationLabel, build.ID))
		lists := build.EmptyLists()
		lists["statefulsets"], lists["pods"] = []metav1.Object{set}, []metav1.Object{pod}
		in, err := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler)).observe(t.Context(),
			events.Ref{Namespace: build.Namespace, Name: "web"})
		if err != nil {
			t.Fatal(err)
		}
		l := build.StoredLedger(Decide(in))
		if l == nil || (l.Removing == nil) != (row.want == nil) || row.want != nil && l.Removing.Span != *row.want {
			t.Errorf("%s: the ledger becomes %+v", name, l)
		}
	}
}

// TestLedgerGoesWithTheTemplate: nothing else would remove it. A user's order is answered.
func TestLedgerGoesWithTheTemplate(t *testing.T) {
	for template, goes := range map[string]bool{"": true, "{}": false} {
		set := counted(3, build.Annotation(api.CleanupTemplateAnnotation, template))
		p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: set})
		if strings.Contains(p.String(), "-members") != goes {
			t.Errorf("with template %q: %s", template, p)
		}
	}
	asked := counted(3, build.Annotation(api.CleanupTemplateAnnotation, ""), build.Annotation(api.CleanupFromAnnotation, "1"))
	p := Decide(Input{Now: build.Now, Namespace: build.Namespace, Name: "web", Set: asked})
	if !strings.Contains(warningOf(p), "has no cleanup pod template") || !strings.Contains(p.String(), "-cleanup-from") {
		t.Errorf("the order stays: %s", p)
	}
}

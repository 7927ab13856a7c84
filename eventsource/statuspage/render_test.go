package statuspage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/overview"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// factsOf reads set web from the objects, at the time build.Now.
func factsOf(t *testing.T, objects build.Lists) setFacts {
	t.Helper()
	c := newCluster(t, objects)
	p := c.page(t)
	facts, err := p.readSet(t.Context(), view{namespace: build.Namespace, name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestListShowsEverySet(t *testing.T) {
	sets := []*appsv1.StatefulSet{
		build.Set("plain"), asleep("nightly"),
		resizing(1 << 30)["statefulsets"][0].(*appsv1.StatefulSet),
		build.Set("garbled", build.Annotation(api.StatusAnnotation, "{")),
	}
	v, err := listView("")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, string(renderList(v, overview.New(overviewFacts(sets...), build.Now), build.Now).html))
}

func TestSetShowsOperationMembersAndTimeline(t *testing.T) {
	f := renderSet(factsOf(t, resizing(1<<30)))
	golden.Equal(t, f.title+"\n"+f.said+"\n"+string(f.html))
}

// TestOnlyWhatNeedsAttentionIsAProblem: volumes that have grown need none, one that does not grow does. A deadline that passed long ago is
// not "now".
func TestOnlyWhatNeedsAttentionIsAProblem(t *testing.T) {
	growth := &api.Growth{Version: api.GrowthVersion, Set: build.Namespace + "/web", Latest: map[string]api.RequestedGrowth{
		"data": {At: metav1.NewTime(build.Now.Add(-time.Hour)), Size: "2Gi", Cause: "9% of 1Gi was free"}},
		Warnings: []api.GrowthWarning{{Template: "logs", Reason: api.GrowthLimit, Message: "template logs has reached its limit"}}}
	set := build.Set("web", build.Status(build.Operation(api.Moving, build.Due(-2*time.Hour))),
		build.Annotation(api.GrowthAnnotation, growth.Encode()))
	data := setOf(factsOf(t, build.Lists{"statefulsets": {set}}))
	if want := []string{"template data grew by usage to 2Gi 60m ago: 9% of 1Gi was free"}; !slices.Equal(data.Notes, want) {
		t.Errorf("notes %q, want %q", data.Notes, want)
	}
	if want := []string{"does not grow by usage: template logs has reached its limit (GrowthLimit)"}; !slices.Equal(data.Problems, want) {
		t.Errorf("problems %q, want %q", data.Problems, want)
	}
	if got := data.Operation.Deadline.Words; got != "passed 120m ago" {
		t.Errorf("the deadline is %q", got)
	}
}

func TestDocumentSurroundsTheFragment(t *testing.T) {
	v, err := listView("q=shop&show=active")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, string(renderDocument(v, fragment{html: []byte("<p>inside</p>"), title: "StatefulSets"})))
}

// TestHostileTextIsShownAsText: users of a namespace write messages, Events and annotations.
func TestHostileTextIsShownAsText(t *testing.T) {
	record := build.Operation(api.Failed, build.Members(api.MemberKept, "data-web-0"))
	record.Message, record.Request, record.Reason = hostile(), hostile(), api.Reason(hostile())
	record.Members[0].Claims[0].Warnings = []string{hostile()}
	letter := api.UndeliveredEvent{Type: hostile(), Source: "x", ID: "x", Subject: "x", Destination: hostile(), Message: hostile()}
	letter.Time.Time = build.Now
	set := build.Set("web", build.Status(record), build.Resize(record.Request), build.Annotation(api.IdleTimeoutAnnotation, hostile()),
		build.Annotation(api.DeadLettersAnnotation, api.EncodeDeadLetters([]api.UndeliveredEvent{letter})))
	facts := factsOf(t, build.Lists{"statefulsets": {set},
		"events": {event("bad", corev1.EventTypeWarning, hostile(), hostile(), time.Minute)}})
	v := view{page: 1, search: `"><script>`}
	for name, f := range map[string]fragment{"set": renderSet(facts),
		"list": renderList(view{page: 1}, overview.New(overviewFacts(set), build.Now), build.Now)} {
		html := string(renderDocument(v, f))
		for _, forbidden := range []string{"<script>", "<img", "\u202E", "\u2066", strings.Repeat("A", 1000)} {
			if strings.Contains(html, forbidden) {
				t.Errorf("the page of the %s contains %.20q", name, forbidden)
			}
		}
		if !strings.Contains(html, "&lt;script&gt;document.body") || len(html) > 20<<10 {
			t.Errorf("the page of the %s has %d bytes, and does not show the text", name, len(html))
		}
	}
}

// TestLargeListIsPaged: 10,000 sets must not make a page that no browser can show.
func TestLargeListIsPaged(t *testing.T) {
	var sets []*appsv1.StatefulSet
	for i := range 10_000 {
		sets = append(sets, build.Set(fmt.Sprintf("set-%05d", i)))
	}
	document := overview.New(overviewFacts(sets...), build.Now)
	for query, row := range map[string]struct{ first, pages, next string }{
		"":                     {"set-00000", "Page 1 of 100", `href="/?page=2"`},
		"page=100":             {"set-09900", "Page 100 of 100", ""},
		"page=101":             {"", "Page 101 of 100", ""},
		"q=set-0999":           {"set-09990", "", ""},
		"q=SET-09&show=&page=": {"set-09000", "Page 1 of 10", `href="/?page=2&amp;q=set-09"`},
	} {
		v, err := listView(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		html := string(renderList(v, document, build.Now).html)
		if !strings.Contains(html, row.pages) || !strings.Contains(html, row.first) || !strings.Contains(html, row.next) ||
			row.next == "" && strings.Contains(html, `rel="next"`) || len(html) > 100<<10 {
			t.Errorf("%q: %d bytes, want %+v", query, len(html), row)
		}
	}
}

func TestStepsShowTheWayOfTheOperation(t *testing.T) {
	members := build.Members(api.MemberMoved, "data-web-0")
	grows := func(r *api.Resize) { r.Expansions = []api.Expansion{{Claim: "data-web-0"}} }
	failedAt := func(p api.Phase) func(*api.Resize) { return func(r *api.Resize) { r.FailedAt = p } }
	for name, row := range map[string]struct {
		record *api.Resize
		want   string
	}{
		"moving":         {build.Operation(api.Moving, members), "Planned done, Moving now, Finishing later, Succeeded later"},
		"succeeded":      {build.Operation(api.Succeeded, members), "Planned done, Moving done, Finishing done, Succeeded now"},
		"growing only":   {build.Operation(api.Expanding, grows), "Expanding now, Succeeded later"},
		"growing failed": {build.Operation(api.Failed, grows, failedAt(api.Expanding)), "Expanding done, Failed now"},
		"growing first": {build.Operation(api.Moving, grows, members),
			"Expanding done, Planned done, Moving now, Finishing later, Succeeded later"},
		"reverting":        {build.Operation(api.Reverting, members), "Planned done, Moving done, Reverting now, Failed later"},
		"failed at moving": {build.Operation(api.Failed, members, failedAt(api.Moving)), "Planned done, Moving done, Reverting done, Failed now"},
		"refused":          {build.Operation(api.Refused), "Refused now"},
	} {
		var steps []string
		for _, s := range stepsOf(row.record) {
			steps = append(steps, s.Name+" "+s.State)
		}
		if got := strings.Join(steps, ", "); got != row.want {
			t.Errorf("%s: %s\nwant %s", name, got, row.want)
		}
	}
}

// TestFragmentOnlyChangesWithTheCluster: an unchanged page is not sent again.
func TestFragmentOnlyChangesWithTheCluster(t *testing.T) {
	facts := factsOf(t, resizing(0))
	first := renderSet(facts)
	if !first.equal(renderSet(facts)) {
		t.Error("the same facts make another page")
	}
	facts.Now = facts.Now.Add(time.Hour)
	if first.equal(renderSet(facts)) {
		t.Error("an hour later, the page is the same")
	}
}

func overviewFacts(sets ...*appsv1.StatefulSet) []overview.Facts {
	var facts []overview.Facts
	for _, set := range sets {
		facts = append(facts, overview.FactsOf(set))
	}
	return facts
}

// TestReducedSetHasTheSameOverview: the list drops what the overview does not need.
func TestReducedSetHasTheSameOverview(t *testing.T) {
	c := newCluster(t, resizing(0))
	p := c.page(t)
	o, err := p.client.Observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []*appsv1.StatefulSet{o.Set, asleep("nightly"), build.Set("db", build.InGroup("shop"), build.DependsOn("web"),
		build.LastActivity(time.Minute), build.IdleTimeout("1h"), build.Annotation(api.CleanupTemplateAnnotation, "{}"))} {
		whole, small := overview.New(overviewFacts(set), build.Now), overview.New([]overview.Facts{overview.FactsOf(set).Reduced()}, build.Now)
		a, b := renderList(view{page: 1}, whole, build.Now), renderList(view{page: 1}, small, build.Now)
		if !a.equal(b) {
			t.Errorf("%s: the overview differs:\n%s\n%s", set.Name, a.html, b.html)
		}
	}
}

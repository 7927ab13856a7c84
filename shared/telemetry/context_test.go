package telemetry

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/trace"
)

// Contexts of three traces; a1 and a2 are spans of the same one.
const (
	a1 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"
	a2 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2222222222222222-01"
	b1 = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-1111111111111111-01"
	c1 = "00-cccccccccccccccccccccccccccccccc-1111111111111111-00"
)

func TestTextThatIsNoContextIsNone(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want bool
	}{
		"a context":                     {a1, true},
		"one that is not sampled":       {c1, true},
		"nothing":                       {"", false},
		"not hexadecimal":               {strings.Replace(a1, "a", "g", 1), false},
		"upper case":                    {strings.ToUpper(a1), false},
		"no trace":                      {"00-00000000000000000000000000000000-1111111111111111-01", false},
		"no span":                       {"00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-0000000000000000-01", false},
		"a version that is forbidden":   {"ff" + a1[2:], false},
		"a version of the future":       {"01" + a1[2:] + "-more", true},
		"more than this version has":    {a1 + "-more", false},
		"cut off":                       {a1[:len(a1)-1], false},
		"something else, and very long": {strings.Repeat("x", 1<<16), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(row.text); got.IsValid() != row.want {
				t.Errorf("valid %t, want %t", got.IsValid(), row.want)
			}
		})
	}
	if got := render(parse(a1)); got != a1 {
		t.Errorf("%s was written as %s", a1, got)
	}
	if got := render(trace.SpanContext{}); got != "" {
		t.Errorf("no context was written as %q", got)
	}
}

// written renders a parent with its links.
func written(parent trace.SpanContext, links []trace.SpanContext) string {
	text := "child of " + render(parent)
	for _, l := range links {
		text += ", linked to " + render(l)
	}
	return text
}

func TestLineage(t *testing.T) {
	for name, row := range map[string]struct {
		header, extension string
		want              string
	}{
		"nothing comes along":                       {"", "", "child of "},
		"a header only: a source that is traced":    {a1, "", "child of " + a1},
		"an extension only: a Broker that is not":   {"", a1, "child of " + a1},
		"both of one trace: the header is nearer":   {a2, a1, "child of " + a2},
		"a reply sent on in the trace it answers":   {b1, a1, "child of " + a1 + ", linked to " + b1},
		"an extension that cannot be read is none":  {a1, "x", "child of " + a1},
		"a header that cannot be read is none":      {"x", a1, "child of " + a1},
		"whether it is sampled makes no difference": {c1, a1, "child of " + a1 + ", linked to " + c1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(lineage(parse(row.header), parse(row.extension))); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestJoin(t *testing.T) {
	for name, row := range map[string]struct {
		operation, parent string
		links             []string
		want              string
	}{
		"no operation":                               {"", b1, nil, "child of " + b1},
		"from nowhere":                               {a1, "", nil, "child of " + a1},
		"from elsewhere":                             {a1, b1, nil, "child of " + a1 + ", linked to " + b1},
		"from two traces elsewhere":                  {a1, b1, []string{c1}, "child of " + a1 + ", linked to " + b1 + ", linked to " + c1},
		"from within: the chain stays a chain":       {a1, a2, []string{b1}, "child of " + a2 + ", linked to " + b1},
		"from within, as only the header tells":      {a1, b1, []string{a2}, "child of " + a2 + ", linked to " + b1},
		"an operation whose trace cannot be read":    {"x", b1, nil, "child of " + b1},
		"one that was not sampled stays not sampled": {c1, b1, nil, "child of " + c1 + ", linked to " + b1},
	} {
		t.Run(name, func(t *testing.T) {
			var links []trace.SpanContext
			for _, l := range row.links {
				links = append(links, parse(l))
			}
			if got := written(join(parse(row.operation), parse(row.parent), links)); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestStampKeepsTheTraceState(t *testing.T) {
	e := event.New()
	Stamp(context.Background(), &e)
	if len(e.Extensions()) != 0 {
		t.Errorf("an event of no trace got %v", e.Extensions())
	}
	e.SetExtension(traceParent, a1)
	e.SetExtension(traceState, "vendor=1")
	came := read(extension{&e})
	next := event.New()
	Stamp(trace.ContextWithSpanContext(context.Background(), came), &next)
	if next.Extensions()[traceParent] != a1 || next.Extensions()[traceState] != "vendor=1" {
		t.Errorf("got %v", next.Extensions())
	}
}

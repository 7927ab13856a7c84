package telemetry

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/trace"
)

// Contexts of three traces. a1 and a2 are spans of the same trace.
const (
	a1 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-1111111111111111-01"
	a2 = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2222222222222222-01"
	b1 = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-1111111111111111-01"
	c1 = "00-cccccccccccccccccccccccccccccccc-1111111111111111-00"
)

func TestInvalidTraceParentIsNoContext(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want bool
	}{
		"a context":                         {a1, true},
		"a context that is not sampled":     {c1, true},
		"nothing":                           {"", false},
		"not hexadecimal":                   {strings.Replace(a1, "a", "g", 1), false},
		"upper case":                        {strings.ToUpper(a1), false},
		"no trace":                          {"00-00000000000000000000000000000000-1111111111111111-01", false},
		"no span":                           {"00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-0000000000000000-01", false},
		"a forbidden version":               {"ff" + a1[2:], false},
		"a future version":                  {"01" + a1[2:] + "-more", true},
		"more fields than this version has": {a1 + "-more", false},
		"a truncated text":                  {a1[:len(a1)-1], false},
		"a very long other text":            {strings.Repeat("x", 1<<16), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parseTraceParent(row.text); got.IsValid() != row.want {
				t.Errorf("valid %t, want %t", got.IsValid(), row.want)
			}
		})
	}
	if got := formatTraceParent(parseTraceParent(a1)); got != a1 {
		t.Errorf("%s was written as %s", a1, got)
	}
	if got := formatTraceParent(trace.SpanContext{}); got != "" {
		t.Errorf("no context was written as %q", got)
	}
}

// written describes a parent with its links.
func written(parent trace.SpanContext, links []trace.SpanContext) string {
	text := "child of " + formatTraceParent(parent)
	for _, l := range links {
		text += ", linked to " + formatTraceParent(l)
	}
	return text
}

func TestParentAndLinks(t *testing.T) {
	for name, row := range map[string]struct {
		header, extension string
		want              string
	}{
		"no context":                                        {"", "", "child of "},
		"only a header: a source with tracing":              {a1, "", "child of " + a1},
		"only an extension: a Broker without tracing":       {"", a1, "child of " + a1},
		"both of one trace: the header is nearer":           {a2, a1, "child of " + a2},
		"a reply posted in the trace of the original event": {b1, a1, "child of " + a1 + ", linked to " + b1},
		"an unreadable extension":                           {a1, "x", "child of " + a1},
		"an unreadable header":                              {"x", a1, "child of " + a1},
		"sampling makes no difference":                      {c1, a1, "child of " + a1 + ", linked to " + c1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := written(parentAndLinks(parseTraceParent(row.header), parseTraceParent(row.extension))); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestJoinTrace(t *testing.T) {
	for name, row := range map[string]struct {
		operation, parent string
		links             []string
		want              string
	}{
		"no operation":                          {"", b1, nil, "child of " + b1},
		"no parent":                             {a1, "", nil, "child of " + a1},
		"a parent in another trace":             {a1, b1, nil, "child of " + a1 + ", linked to " + b1},
		"a parent and a link in other traces":   {a1, b1, []string{c1}, "child of " + a1 + ", linked to " + b1 + ", linked to " + c1},
		"a parent in the operation's trace":     {a1, a2, []string{b1}, "child of " + a2 + ", linked to " + b1},
		"a link in the operation's trace":       {a1, b1, []string{a2}, "child of " + a2 + ", linked to " + b1},
		"an operation with an unreadable trace": {"x", b1, nil, "child of " + b1},
		"an operation that was not sampled":     {c1, b1, nil, "child of " + c1 + ", linked to " + b1},
	} {
		t.Run(name, func(t *testing.T) {
			var links []trace.SpanContext
			for _, l := range row.links {
				links = append(links, parseTraceParent(l))
			}
			if got := written(joinTrace(parseTraceParent(row.operation), parseTraceParent(row.parent), links)); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestStampKeepsTraceState(t *testing.T) {
	e := event.New()
	Stamp(context.Background(), &e)
	if len(e.Extensions()) != 0 {
		t.Errorf("an event without a trace got %v", e.Extensions())
	}
	e.SetExtension(traceParent, a1)
	e.SetExtension(traceState, "vendor=1")
	incoming := extract(eventCarrier{&e})
	next := event.New()
	Stamp(trace.ContextWithSpanContext(context.Background(), incoming), &next)
	if next.Extensions()[traceParent] != a1 || next.Extensions()[traceState] != "vendor=1" {
		t.Errorf("got %v", next.Extensions())
	}
}

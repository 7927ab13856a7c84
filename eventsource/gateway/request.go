package gateway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Ask is what a request asks for.
type Ask struct {
	// Sets are named one by one. Without any, the whole Group is asked for.
	Sets  []Name
	Group Ref
	// All stands for every set that is looked after: of a stream of events only.
	All bool
	// Session is how long the sets are to be awake; 0 for their idle timeout.
	Session time.Duration
	// Timeout is how long a blocking request waits.
	Timeout time.Duration
	// Refresh is when the page looks again.
	Refresh time.Duration
	// Title is what the page calls the sets.
	Title string
	// Details shows each set on the page. Whoever can see the site can see the page, so nothing is shown unless asked for.
	Details bool
	// Theme is what Sablier's page is to look like; empty for the default.
	Theme string
}

// String says which sets the request is about. It is equal for requests that may share what they see.
func (a Ask) String() string {
	switch {
	case a.All:
		return "*"
	case len(a.Sets) == 0:
		return "group " + a.Group.String()
	}
	names := make([]string, len(a.Sets))
	for i, name := range a.Sets {
		if names[i] = name.Ref.String(); name.Optional {
			names[i] = optionalPrefix + names[i]
		}
	}
	return strings.Join(slices.Compact(names), ",")
}

// target is what the request names, in a word for measurements.
func (a Ask) target() string {
	if len(a.Sets) > 0 {
		return "names"
	}
	return "group"
}

// called returns the names by which the request has asked for the set.
func (a Ask) called(ref Ref) []string {
	var asked []string
	for _, name := range a.Sets {
		if name.Ref == ref {
			asked = append(asked, name.Asked)
		}
	}
	return slices.Compact(asked)
}

// Bounds of what a query may ask for.
const (
	mostNames       = 10
	shortestSession = 10 * time.Second
	longestTitle    = 100 // runes
	shortRefresh    = time.Second
	defaultRefresh  = 5 * time.Second
	longRefresh     = time.Minute
	defaultTitle    = "This service"
)

// ParseAsk reads a query. Names come as names=A&names=B (sablierapp/sablier-traefik-plugin config.go); separated by commas
// they are accepted too, because that is how the Caddyfile's documentation has them, which the plugin does not take apart
// (sablierapp/sablier-caddy-plugin config.go). What is empty counts as absent: the nginx script sends every parameter,
// with nothing in those that are not configured (sablierapp/sablier plugins/nginx/njs/sablier.js). Unknown parameters are
// ignored. Durations out of bounds are brought within them.
func ParseAsk(query map[string][]string, options Options) (Ask, error) {
	q := &fields{values: query, namespace: options.Namespace}
	ask := Ask{
		Sets: q.names(), Group: q.group(), Session: q.session(options.LongestSession),
		Timeout: min(q.duration("timeout", options.DefaultTimeout), LongestWait),
		Refresh: min(max(q.duration("refresh_frequency", defaultRefresh), shortRefresh), longRefresh),
		Title:   cmp.Or(clean(q.first("display_name"), longestTitle), defaultTitle),
		Details: q.bool("show_details"), Theme: q.first("theme"),
	}
	switch {
	case q.err != nil:
		return Ask{}, q.err
	case len(ask.Sets) == 0 && ask.Group.Name == "":
		return Ask{}, invalid("neither names nor group is given. Name StatefulSets, as names=%s, or group=NAMESPACE/GROUP", nameFormat)
	case len(ask.Sets) > 0 && ask.Group.Name != "":
		return Ask{}, invalid("both names and group are given. Give one of them")
	case len(ask.Sets) > mostNames:
		return Ask{}, invalid("%d names are more than %d. Name a group instead", len(ask.Sets), mostNames)
	}
	return ask, nil
}

// fields reads parameters, and keeps the first error.
type fields struct {
	values    map[string][]string
	namespace string // of what is named without one
	err       error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// first is the first value of the parameter that is not empty.
func (f *fields) first(key string) string {
	for _, value := range f.values[key] {
		if value = strings.TrimSpace(value); value != "" {
			return value
		}
	}
	return ""
}

func (f *fields) duration(key string, absent time.Duration) time.Duration {
	value := f.first(key)
	if value == "" {
		return absent
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		f.fail(invalid(`%s=%.100q is no duration. Write one, for example "30m" or "1h30m"`, key, value))
	}
	return d
}

// session reads how long the sets are to be awake. A short session would be a write every few moments.
func (f *fields) session(longest time.Duration) time.Duration {
	if f.first("session_duration") == "" {
		return 0
	}
	return min(max(f.duration("session_duration", 0), shortestSession), longest)
}

func (f *fields) bool(key string) bool {
	value := f.first(key)
	if value == "" {
		return false
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		f.fail(invalid("%s=%.100q is neither true nor false", key, value))
	}
	return yes
}

// names reads the sets, sorted. A name that is given with and without the prefix for optional ones is not optional.
func (f *fields) names() []Name {
	var names []Name
	for _, value := range f.values["names"] {
		for text := range strings.SplitSeq(value, ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			name, err := ParseName(text, f.namespace)
			if err != nil {
				f.fail(err)
				return nil
			}
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	return requireOnce(slices.Compact(names))
}

// requireOnce makes every name of a set required if one of them is.
func requireOnce(names []Name) []Name {
	required := map[Ref]bool{}
	for _, name := range names {
		required[name.Ref] = required[name.Ref] || !name.Optional
	}
	for i := range names {
		names[i].Optional = !required[names[i].Ref]
	}
	return slices.Compact(names)
}

// group reads NAMESPACE/GROUP, or GROUP of the default namespace. The name ends in a selector, so nothing but a label's value is
// taken. A group of every namespace does not exist: in each of them another tenant could add sets to it.
func (f *fields) group() Ref {
	value := f.first("group")
	if value == "" {
		return Ref{}
	}
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = f.namespace, value
	}
	switch {
	case name == "" || len(validation.IsValidLabelValue(name)) > 0:
		f.fail(invalid("group=%.100q is no value of a label. Write NAMESPACE/GROUP", value))
	case namespace == "" && !ok:
		f.fail(invalid("group=%.100q names no namespace. Write NAMESPACE/GROUP, or set DRYDOCK_GATEWAY_NAMESPACE", value))
	case len(validation.IsDNS1123Label(namespace)) > 0:
		f.fail(invalid("group=%.100q names no namespace before the slash. Write NAMESPACE/GROUP", value))
	}
	return Ref{namespace, name}
}

// clean makes one line of at most so many runes of a text, without what moves or hides other text.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r), r == unicode.ReplacementChar: // direction overrides are not graphic
			return -1
		}
		return r
	}, text)
	return clip(strings.TrimSpace(text), most)
}

// clip shortens a text to so many runes.
func clip(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

package wakegateway

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
	// Sets are named one by one. Without any, the whole Group is asked for; its namespace is empty for those of every
	// namespace that is looked after.
	Sets  []Ref
	Group Ref
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
}

// String says what the request is about.
func (a Ask) String() string {
	if len(a.Sets) == 0 {
		return "group " + cmp.Or(a.Group.Namespace, "*") + "/" + a.Group.Name
	}
	names := make([]string, len(a.Sets))
	for i, ref := range a.Sets {
		names[i] = ref.String()
	}
	return strings.Join(names, ",")
}

// Bounds of what a query may ask for.
const (
	mostNames      = 50
	longestTitle   = 100 // runes
	shortRefresh   = time.Second
	defaultRefresh = 5 * time.Second
	longRefresh    = time.Minute
	defaultTitle   = "This service"
)

// ParseAsk reads a query. Names come as names=A&names=B (sablierapp/sablier-traefik-plugin config.go); separated by commas
// they are accepted too, because that is how the Caddyfile's documentation has them, which the plugin does not take apart
// (sablierapp/sablier-caddy-plugin config.go). What is empty counts as absent: the nginx script sends every parameter,
// with nothing in those that are not configured (sablierapp/sablier plugins/nginx/njs/sablier.js). A theme, and whatever
// else there is, is ignored. Durations that are too long are made as long as they may be.
func ParseAsk(query map[string][]string, options Options) (Ask, error) {
	q := &fields{values: query}
	ask := Ask{
		Sets: q.names(), Group: q.group(),
		Session: min(q.duration("session_duration", 0), options.LongestSession),
		Timeout: min(q.duration("timeout", options.DefaultTimeout), LongestWait),
		Refresh: min(max(q.duration("refresh_frequency", defaultRefresh), shortRefresh), longRefresh),
		Title:   cmp.Or(clean(q.first("display_name"), longestTitle), defaultTitle),
		Details: q.bool("show_details"),
	}
	switch {
	case q.err != nil:
		return Ask{}, q.err
	case len(ask.Sets) == 0 && ask.Group.Name == "":
		return Ask{}, invalid("neither names nor group is given; name StatefulSets, as names=%s, or group=NAMESPACE/GROUP", nameFormat)
	case len(ask.Sets) > 0 && ask.Group.Name != "":
		return Ask{}, invalid("both names and group are given; give one of them")
	case len(ask.Sets) > mostNames:
		return Ask{}, invalid("%d names are more than %d; name a group instead", len(ask.Sets), mostNames)
	}
	return ask, nil
}

// fields reads parameters, and keeps the first error.
type fields struct {
	values map[string][]string
	err    error
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
	if err != nil || d <= 0 {
		f.fail(invalid(`%s=%.100q is no duration; write one, as "30m" or "1h30m"`, key, value))
	}
	return d
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

// names reads the sets, sorted and each once.
func (f *fields) names() []Ref {
	var refs []Ref
	for _, value := range f.values["names"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			ref, err := ParseName(name)
			if err != nil {
				f.fail(err)
				return nil
			}
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs)
}

// group reads GROUP or NAMESPACE/GROUP. The name ends in a selector, so nothing but a label's value is taken.
func (f *fields) group() Ref {
	value := f.first("group")
	if value == "" {
		return Ref{}
	}
	ref := Ref{Name: value}
	if namespace, name, ok := strings.Cut(value, "/"); ok {
		ref = Ref{Namespace: namespace, Name: name}
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			f.fail(invalid("group=%.100q names no namespace before the slash; write GROUP or NAMESPACE/GROUP", value))
		}
	}
	if ref.Name == "" || len(validation.IsValidLabelValue(ref.Name)) > 0 {
		f.fail(invalid("group=%.100q is no value of a label; write GROUP or NAMESPACE/GROUP", value))
	}
	return ref
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

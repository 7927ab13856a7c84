package gateway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/text"
)

// Query is the parsed query of a request.
type Query struct {
	// Sets are the named sets. If it is empty, the request is for the whole Group.
	Sets  []Name
	Group Ref
	// All selects every set that this Drydock serves. Only a stream of events may use it.
	All bool
	// Session is how long the sets stay awake, or 0 for their idle timeout.
	Session time.Duration
	// Timeout is how long a blocking request waits.
	Timeout time.Duration
	// Refresh is the time until the page reloads.
	Refresh time.Duration
	// Title is the name of the site on the page.
	Title string
	// Details shows each set on the page. The default is false, because every visitor of the site sees the page.
	Details bool
	// Theme is the theme of Sablier's page, or empty for the default.
	Theme string
}

// String names the requested sets. Requests with the same string share cached observations.
func (a Query) String() string {
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

// target returns "names" or "group", for metrics.
func (a Query) target() string {
	if len(a.Sets) > 0 {
		return "names"
	}
	return "group"
}

// namesFor returns the names in the request for the set.
func (a Query) namesFor(ref Ref) []string {
	var asked []string
	for _, name := range a.Sets {
		if name.Ref == ref {
			asked = append(asked, name.Asked)
		}
	}
	return slices.Compact(asked)
}

// Limits of a query.
const (
	maxNames       = 10
	minSession     = 10 * time.Second
	maxTitle       = 400 // bytes; 100 letters of any script
	minRefresh     = time.Second
	defaultRefresh = 5 * time.Second
	maxRefresh     = time.Minute
	defaultTitle   = "This service"
)

// ParseQuery reads a query. Names have the form names=A&names=B (sablierapp/sablier-traefik-plugin config.go). Names separated by
// commas are accepted, too: the documentation of the Caddyfile shows them, and the plugin does not split them
// (sablierapp/sablier-caddy-plugin config.go). An empty parameter counts as absent, because the nginx script sends every parameter
// (sablierapp/sablier plugins/nginx/njs/sablier.js). Unknown parameters are ignored. Durations are clamped to their limits.
func ParseQuery(values map[string][]string, options Options) (Query, error) {
	q := &fields{values: values, namespace: options.Namespace}
	query := Query{
		Sets: q.names(), Group: q.group(), Session: q.session(options.LongestSession),
		Timeout: min(q.duration("timeout", options.DefaultTimeout), LongestWait),
		Refresh: min(max(q.duration("refresh_frequency", defaultRefresh), minRefresh), maxRefresh),
		Title:   cmp.Or(text.Line(q.value("display_name"), maxTitle), defaultTitle),
		Details: q.bool("show_details"), Theme: q.value("theme"),
	}
	switch {
	case q.err != nil:
		return Query{}, q.err
	case len(query.Sets) == 0 && query.Group.Name == "":
		return Query{}, invalid("names and group are both missing. Write names=%s, or group=NAMESPACE/GROUP", nameFormat)
	case len(query.Sets) > 0 && query.Group.Name != "":
		return Query{}, invalid("both names and group are given. Give only one of them")
	case len(query.Sets) > maxNames:
		return Query{}, invalid("%d names are given, and at most %d are allowed. Name a group instead", len(query.Sets), maxNames)
	}
	return query, nil
}

// fields reads parameters and stores the first error.
type fields struct {
	values    map[string][]string
	namespace string // for names without a namespace
	err       error
}

// fail stores the error, unless there is an earlier one.
func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// value returns the parameter's first value that is not empty.
func (f *fields) value(key string) string {
	for _, value := range f.values[key] {
		if value = strings.TrimSpace(value); value != "" {
			return value
		}
	}
	return ""
}

// duration reads a duration, or returns the default if the parameter is absent.
func (f *fields) duration(key string, absent time.Duration) time.Duration {
	value := f.value(key)
	if value == "" {
		return absent
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		f.fail(invalid(`%s=%.100q is not a duration. Write one, for example "30m" or "1h30m"`, key, value))
	}
	return d
}

// session reads how long the sets stay awake. A minimum limits the rate of writes.
func (f *fields) session(longest time.Duration) time.Duration {
	if f.value("session_duration") == "" {
		return 0
	}
	return min(max(f.duration("session_duration", 0), minSession), longest)
}

// bool reads a boolean, which is false if the parameter is absent.
func (f *fields) bool(key string) bool {
	value := f.value(key)
	if value == "" {
		return false
	}
	yes, err := strconv.ParseBool(value)
	if err != nil {
		f.fail(invalid("%s=%.100q is not a boolean. Write true or false", key, value))
	}
	return yes
}

// names reads the sets and sorts them. A set that is named with and without the prefix "optional:" is required.
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
	return requiredWins(slices.Compact(names))
}

// requiredWins makes all names of a set required if one of them is.
func requiredWins(names []Name) []Name {
	required := map[Ref]bool{}
	for _, name := range names {
		required[name.Ref] = required[name.Ref] || !name.Optional
	}
	for i := range names {
		names[i].Optional = !required[names[i].Ref]
	}
	return slices.Compact(names)
}

// group reads NAMESPACE/GROUP, or GROUP for the default namespace. The name becomes part of a label selector, so it has to be a valid
// label value. A group never spans namespaces, because other tenants could add sets to it.
func (f *fields) group() Ref {
	value := f.value("group")
	if value == "" {
		return Ref{}
	}
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = f.namespace, value
	}
	switch {
	case name == "" || len(validation.IsValidLabelValue(name)) > 0:
		f.fail(invalid("group=%.100q is not a label value. Write NAMESPACE/GROUP", value))
	case namespace == "" && !ok:
		f.fail(invalid("group=%.100q has no namespace. Write NAMESPACE/GROUP, or set DRYDOCK_GATEWAY_NAMESPACE", value))
	case len(validation.IsDNS1123Label(namespace)) > 0:
		f.fail(invalid("group=%.100q has no valid namespace before the slash. Write NAMESPACE/GROUP", value))
	}
	return Ref{namespace, name}
}

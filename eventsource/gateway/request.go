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

// Name is the name of a StatefulSet in a request.
type Name struct {
	Ref
	// Asked is the name in the form of the request, without the prefix. The answer uses the same form.
	Asked string
	// Optional is true if the set wakes with the session but the session does not wait for it.
	Optional bool
}

func compareNames(a, b Name) int {
	return cmp.Or(compareRefs(a.Ref, b.Ref), strings.Compare(a.Asked, b.Asked))
}

// optionalPrefix marks a name that the session does not wait for (sablierapp/sablier pkg/sablier/session_request.go).
const optionalPrefix = "optional:"

const nameFormat = "NAMESPACE/NAME or statefulset_NAMESPACE_NAME_REPLICAS"

// kindStatefulSet is Sablier's name of the kind.
const kindStatefulSet = "statefulset"

// ParseName reads NAMESPACE/NAME, or KIND_NAMESPACE_NAME_REPLICAS as Sablier does (sablierapp/sablier
// pkg/provider/kubernetes/parse_name.go), each with or without the prefix "optional:". A name alone belongs to the default
// namespace. The replicas have to be a number and are ignored, because a set wakes with its previous replica count.
func ParseName(text, defaultNamespace string) (Name, error) {
	asked, optional := strings.CutPrefix(text, optionalPrefix)
	ref, err := parseRef(asked, defaultNamespace)
	return Name{Ref: ref, Asked: asked, Optional: optional}, err
}

func parseRef(text, defaultNamespace string) (Ref, error) {
	delimited := strings.HasPrefix(text, kindStatefulSet+"-") || strings.HasPrefix(text, kindStatefulSet+".")
	if len(validation.IsDNS1123Subdomain(text)) == 0 && !delimited {
		if defaultNamespace == "" {
			return Ref{}, invalid("%.100q names no namespace. Write %s", text, nameFormat)
		}
		return Ref{defaultNamespace, text}, nil
	}
	if namespace, name, ok := strings.Cut(text, "/"); ok && !strings.Contains(name, "/") {
		return validRef(text, Ref{namespace, name})
	}
	return parseSablier(text)
}

// parseSablier reads KIND NAMESPACE NAME REPLICAS with a delimiter between them. In Sablier's Kubernetes provider the delimiter is a
// setting with any text. Here the delimiter is the text between the kind and the first letter or digit of the namespace.
func parseSablier(text string) (Ref, error) {
	kind := text[:wordEnd(text)]
	if kind != kindStatefulSet {
		return Ref{}, invalid("%.100q names the kind %.30q, and Drydock wakes only StatefulSets. Write %s", text, kind, nameFormat)
	}
	rest := text[len(kind):]
	delimiter := rest[:max(0, strings.IndexFunc(rest, isWord))]
	if delimiter == "" {
		return Ref{}, invalid("%.100q is not the name of a StatefulSet. Write %s", text, nameFormat)
	}
	parts := strings.Split(text, delimiter)
	switch {
	case len(parts) != 4:
		return Ref{}, invalid("%.100q is not the name of a StatefulSet. Write %s", text, nameFormat)
	case !isCount(parts[3]):
		return Ref{}, invalid("%.100q does not end in a number of replicas. Write %s", text, nameFormat)
	}
	return validRef(text, Ref{parts[1], parts[2]})
}

// isWord reports whether a Kubernetes name may start with the character.
func isWord(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }

// wordEnd returns the length of the text's first word.
func wordEnd(text string) int {
	if end := strings.IndexFunc(text, func(r rune) bool { return !isWord(r) }); end >= 0 {
		return end
	}
	return len(text)
}

// validRef returns the reference if both parts are Kubernetes names. They become part of a path at the API server.
func validRef(text string, ref Ref) (Ref, error) {
	if len(validation.IsDNS1123Label(ref.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return Ref{}, invalid("%.100q has no valid namespace and name. Write %s", text, nameFormat)
	}
	return ref, nil
}

func isCount(text string) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && n >= 0
}

// Ref names a StatefulSet, or a group.
type Ref struct{ Namespace, Name string }

// String returns NAMESPACE/NAME.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

func compareRefs(a, b Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

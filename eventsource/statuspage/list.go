package statuspage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"drydock.dev/shared/overview"
)

// listData is the input of the template of the list.
type listData struct {
	Tabs        []tab
	Rows        []row
	Search      string
	Summary     string
	Pages       string // "Page 2 of 5", or empty
	Prev, Next  string // addresses, or empty
	NothingHere bool   // no set has opted in
}

// tab is a filter with the number of its sets.
type tab struct {
	Key, Label, URL string
	Count           int
	Current         bool
}

// row is a line of the list.
type row struct {
	ID, URL         string
	Namespace, Name string
	Group           string
	Ready, Replicas int32
	State           string
	Mood            mood
	Since           *when
	Operations      []rowOperation
	Why             string
	DeadLetters     int
}

// rowOperation is the operation of a line.
type rowOperation struct {
	Words, Phase string
	Mood         mood
	Message      string
}

// listOf returns the data of the page of the list.
func listOf(v view, document overview.Document, now time.Time) listData {
	found := slices.DeleteFunc(slices.Clone(document.Sets), func(s overview.Set) bool { return !matches(s, v.search) })
	data := listData{Search: v.search, NothingHere: len(document.Sets) == 0}
	for _, f := range filters {
		n := 0
		for _, s := range found {
			if f.selects(s) {
				n++
			}
		}
		data.Tabs = append(data.Tabs, tab{f.Key, f.Label, view{search: v.search, show: f.Key}.url(), n, f.Key == v.show})
	}
	shown := slices.DeleteFunc(found, func(s overview.Set) bool { return !filterOf(v.show).selects(s) })
	data.Summary = summary(document, len(shown))
	from := min((v.page-1)*rowsPerPage, len(shown))
	to := min(from+rowsPerPage, len(shown))
	for _, s := range shown[from:to] {
		data.Rows = append(data.Rows, rowOf(s, now))
	}
	data.addPages(v, len(shown), to)
	return data
}

// addPages adds the links to the neighbouring pages.
func (d *listData) addPages(v view, total, to int) {
	pages := (total + rowsPerPage - 1) / rowsPerPage
	if pages > 1 {
		d.Pages = fmt.Sprintf("Page %d of %d", v.page, pages)
	}
	if v.page > 1 {
		before := v
		before.page = max(1, min(v.page-1, pages))
		d.Prev = before.url()
	}
	if to < total {
		after := v
		after.page++
		d.Next = after.url()
	}
}

func matches(s overview.Set, search string) bool {
	return search == "" || strings.Contains(s.Namespace+"/"+s.Name, search) || strings.Contains(strings.ToLower(s.Group), search)
}

// summary returns the sentence about all sets.
func summary(document overview.Document, shown int) string {
	active, failed := 0, 0
	for _, s := range document.Sets {
		if isActive(s) {
			active++
		}
		if hasFailed(s) {
			failed++
		}
	}
	words := fmt.Sprintf("%s, %d active, %d failed or refused", plural(len(document.Sets), "StatefulSet"), active, failed)
	if shown != len(document.Sets) {
		words += fmt.Sprintf("; %d shown", shown)
	}
	return words
}

func rowOf(s overview.Set, now time.Time) row {
	r := row{
		ID: "set-" + s.Namespace + "/" + s.Name, URL: view{namespace: s.Namespace, name: s.Name}.url(), Namespace: s.Namespace, Name: s.Name,
		Group: printable(s.Group), Ready: s.Ready, Replicas: s.Replicas, State: stateWords(s.State), Mood: moodOfState(s.State),
		Since: past(s.Since, now), Why: printable(s.Why), DeadLetters: s.DeadLetters,
	}
	if s.Saved > 0 {
		r.Why = printable(joinedBy("; ", s.Why, plural(int(s.Saved), "replica")+" when it wakes"))
	}
	if r.Mood == good && s.Ready < s.Replicas {
		r.Mood = busy
	}
	for _, o := range s.Operations {
		phase := cmp.Or(string(o.Phase), "Unreadable")
		r.Operations = append(r.Operations, rowOperation{operationWords(o.Kind, o.Request), phase, moodOfPhase(o.Phase), printable(o.Message)})
	}
	return r
}

// filter selects sets of the list.
type filter struct {
	Key, Label string
	selects    func(overview.Set) bool
}

// filters are the filters of the list. The key is the parameter show.
var filters = []filter{
	{"", "All", func(overview.Set) bool { return true }},
	{"active", "Active", isActive},
	{"failed", "Failed or refused", hasFailed},
	{"asleep", "Asleep", func(s overview.Set) bool { return s.State == overview.Asleep || s.State == overview.FallingAsleep }},
	{"letters", "Dead letters", func(s overview.Set) bool { return s.DeadLetters > 0 }},
}

// filterOf returns the filter with the key, or nil.
func filterOf(key string) *filter {
	i := slices.IndexFunc(filters, func(f filter) bool { return f.Key == key })
	if i < 0 {
		return nil
	}
	return &filters[i]
}

func isActive(s overview.Set) bool {
	return s.State == overview.WakingUp || s.State == overview.FallingAsleep ||
		slices.ContainsFunc(s.Operations, func(o overview.Operation) bool { return o.Phase != "" && !o.Phase.Terminal() })
}

func hasFailed(s overview.Set) bool {
	return slices.ContainsFunc(s.Operations, func(o overview.Operation) bool { return o.Phase == "" || o.Phase.Terminal() })
}

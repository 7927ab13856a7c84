package statuspage

import (
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxPage is the last page that can be shown.
	maxPage = 100_000
	// rowsPerPage is the number of sets on one page of the list.
	rowsPerPage = 100
	// maxSearch limits the searched text, in bytes.
	maxSearch = 100
)

// view is the contents of a page: one set, or a page of the list of sets. Equal views are the same page.
type view struct {
	namespace, name string // of the set; empty for the list
	search          string // a part of the namespace, name or group
	show            string // the key of a filter
	page            int    // from 1
}

func (v view) isSet() bool { return v.name != "" }

// viewOfPath returns the view of a page.
func viewOfPath(path, rawQuery string) (view, error) {
	if path == "/" {
		return listView(rawQuery)
	}
	rest, found := strings.CutPrefix(path, "/sets/")
	namespace, name, complete := strings.Cut(rest, "/")
	if !found || !complete {
		return view{}, unknownPath()
	}
	return setView(namespace, name)
}

// viewOfEvents returns the view that a stream of events follows. Its query is that of the list, or has the parameter set.
func viewOfEvents(rawQuery string) (view, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return view{}, invalidQuery()
	}
	if namespace, name, found := strings.Cut(values.Get("set"), "/"); found {
		return setView(namespace, name)
	}
	return listView(rawQuery)
}

func setView(namespace, name string) (view, error) {
	v := view{namespace: namespace, name: name}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return view{}, unknownPath()
	}
	return v, nil
}

func listView(rawQuery string) (view, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return view{}, invalidQuery()
	}
	v := view{search: strings.ToLower(strings.TrimSpace(values.Get("q"))), show: values.Get("show"), page: 1}
	if text := values.Get("page"); text != "" {
		if v.page, err = strconv.Atoi(text); err != nil {
			return view{}, invalidQuery()
		}
	}
	if filterOf(v.show) == nil || len(v.search) > maxSearch || v.page < 1 || v.page > maxPage {
		return view{}, invalidQuery()
	}
	return v, nil
}

// query returns the query of the list, without defaults.
func (v view) query() string {
	values := url.Values{}
	if v.search != "" {
		values.Set("q", v.search)
	}
	if v.show != "" {
		values.Set("show", v.show)
	}
	if v.page > 1 {
		values.Set("page", strconv.Itoa(v.page))
	}
	return values.Encode()
}

// url returns the address of the page.
func (v view) url() string {
	if v.isSet() {
		return "/sets/" + v.namespace + "/" + v.name
	}
	if query := v.query(); query != "" {
		return "/?" + query
	}
	return "/"
}

// events returns the address of the stream of changes of the page.
func (v view) events() string {
	if v.isSet() {
		return "/events?" + url.Values{"set": {v.namespace + "/" + v.name}}.Encode()
	}
	return "/events?" + v.query()
}

package gateway

import (
	"errors"
	"html"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"drydock.dev/test/golden"
)

const hostile = `</title><script>alert(1)</script><img src=x onerror=alert(1)>"'&{{sets}}{{policy}}`

func TestPageEscapesEveryValue(t *testing.T) {
	query := Query{Sets: []Name{{Ref: Ref{"shop", "web"}}}, Title: hostile, Details: true, Refresh: 5 * time.Second}
	s := Session{Sets: []Set{{Ref: Ref{"shop", hostile}, Status: Status{State: Failed, Message: hostile}, Needed: true}}}
	page := string(showPage(pathDynamic, query, s, nil).body)
	for _, bad := range []string{"<script", "<img", "onerror=alert(1)>\"", "</title><"} {
		if strings.Contains(page, bad) {
			t.Errorf("%s is in the page", bad)
		}
	}
	if n := strings.Count(page, html.EscapeString(`{{sets}}{{policy}}`)); n != 4 {
		t.Errorf("the text in braces occurs %d times, want 4 (the title twice, the name and the message):\n%s", n, page)
	}
}

func TestPageHasNoTemplateActionLeft(t *testing.T) {
	for _, s := range []Session{{}, {Sets: []Set{{Status: Status{State: Ready}}}}} {
		for _, err := range []error{nil, pausedProblem(Ref{}), errors.New("x")} {
			if page := string(showPage(pathDynamic, Query{Details: true}, s, err).body); strings.Contains(page, "{{") ||
				!strings.Contains(page, "</html>") {
				t.Errorf("%s", page)
			}
		}
	}
}

func TestPages(t *testing.T) {
	waking := Session{Sets: []Set{{Ref: Ref{"shop", "db"}, Status: Status{State: Waking, Ready: 1, Want: 3}, Needed: true},
		{Ref: Ref{"shop", "web"}, Status: Status{State: Asleep}, Needed: true}}}
	failed := Session{Sets: []Set{{Ref: Ref{"shop", "db"}, Status: Status{State: Failed, Message: "no room"}, Needed: true}}}
	held := func(name string, state State) Session {
		return Session{Sets: []Set{{Ref: Ref{"shop", name}, Status: Status{State: state}, Needed: true}}}
	}
	situations := map[string]struct {
		session Session
		err     error
		details bool
		code    int
	}{
		"waking":                        {waking, nil, false, 200},
		"with details":                  {waking, nil, true, 200},
		"asleep":                        {waking, nil, true, 200},
		"failed":                        {failed, nil, true, 200},
		"failed, without details":       {failed, nil, false, 200},
		"ready":                         {Session{Sets: []Set{{Status: Status{State: Ready}, Needed: true}}}, nil, false, 200},
		"paused":                        {held("web", Paused), nil, false, 409},
		"a visit does not wake the set": {held("web", Stopped), nil, true, 409},
		"the API server is away":        {Session{}, errors.New("dial 10.0.0.1: refused"), true, 503},
		"the set does not exist":        {Session{}, setNotFound(Ref{"shop", "web"}, "it is secret"), false, 404},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		row := situations[name]
		t.Run(name, func(t *testing.T) {
			a := showPage(pathDynamic, Query{Title: "Shop", Details: row.details, Refresh: 5 * time.Second}, row.session, row.err)
			if a.code != row.code {
				t.Errorf("%d, want %d", a.code, row.code)
			}
			file.Entry(t, name, wording(string(a.body)))
			if strings.Contains(string(a.body), "10.0.0.1") || !row.details && strings.Contains(string(a.body), "<li ") {
				t.Errorf("the page discloses details: %s", a.body)
			}
		})
	}
}

func TestPageReloads(t *testing.T) {
	for refresh, want := range map[time.Duration]string{
		time.Second:             `content="1">|reloads every second.`,
		1500 * time.Millisecond: `content="1">|reloads every second.`,
		time.Minute:             `content="60">|reloads every 60 seconds.`,
	} {
		page := string(showPage(pathDynamic, Query{Refresh: refresh}, Session{}, nil).body)
		for part := range strings.SplitSeq(want, "|") {
			if !strings.Contains(page, part) {
				t.Errorf("%s: %s is not in %s", refresh, part, page)
			}
		}
	}
}

package gateway

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"drydock.dev/shared/text"
)

//go:embed page.html
var pageSource string

// pageTemplate renders the waiting page from a pageData.
var pageTemplate = template.Must(template.New("page.html").Parse(pageSource))

const pageKind = "text/html; charset=utf-8"

// themes are the names that a request may give: Drydock's own, and the themes that Sablier includes
// (sablierapp/sablier pkg/theme/embedded). The page is the same for all.
var themes = []string{"drydock", "ghost", "hacker-terminal", "matrix", "shuffle"}

// pagePolicy allows the page its own style and nothing else. The plugins of Traefik, Caddy and nginx forward only the headers
// Content-Type and Content-Length, so the page contains the policy, too. The directive frame-ancestors works only in a header.
var pagePolicy = "default-src 'none'; style-src 'sha256-" + styleHash() + "'; img-src data:; base-uri 'none'; form-action 'none'"

// styleHash returns the hash of the page's style for the policy.
func styleHash() string {
	_, style, _ := strings.Cut(pageSource, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// showPage answers with the page, even if the sets are paused or the API server is unreachable, because both may pass. The HTTP
// status tells programs.
func showPage(path string, query Query, s Session, err error) answer {
	a := answer{code: http.StatusOK, kind: pageKind, ready: err == nil && s.Ready()}
	view := viewOf(s)
	if err == nil {
		err = s.refused()
	}
	if err != nil {
		p := problemOf(err)
		if p.Status == http.StatusNotFound {
			return refuse(path, err) // the user has to change the configuration
		}
		a.code, a.problem, a.err = p.Status, p, err
		if view = viewUnreachable; p.Status == http.StatusConflict {
			view = viewOfRefused(s)
		}
	}
	a.body = render(query, s, view)
	return a
}

// view is what the page says about all sets together.
type view struct {
	mood string // a class of the style
	says string // follows the title
	more string
}

var (
	viewReady       = view{"ready", "is ready", "It opens when this page reloads."}
	viewWaking      = view{"waking", "is waking up", "It sleeps while it is not used. It opens by itself as soon as it is ready."}
	viewFailed      = view{"failed", "has trouble waking up", "Its administrator can see why. It opens by itself once it is ready."}
	viewPaused      = view{"paused", "is paused", "Its administrator has paused it. It opens by itself when the pause ends."}
	viewStopped     = view{"paused", "is switched off", "A visit does not start it. Its administrator can."}
	viewUnreachable = view{"failed", "cannot be reached at the moment",
		"It is not known whether it is asleep. This usually passes within moments."}
)

// viewOfRefused returns the view of a session with a set that no visit wakes.
func viewOfRefused(s Session) view {
	for _, set := range s.Sets {
		if set.Needed && set.State == Paused {
			return viewPaused
		}
	}
	return viewStopped
}

// viewOf returns the view of any other session.
func viewOf(s Session) view {
	if s.Ready() {
		return viewReady
	}
	for _, set := range s.Sets {
		if set.Needed && set.State == Failed {
			return viewFailed
		}
	}
	return viewWaking
}

// pageData is the input of the template. The template escapes all of it.
type pageData struct {
	Policy            string
	Title, Says, More string
	Mood              string
	Refresh           int    // seconds
	Interval          string // the same in words, after "every"
	Sets              []pageSet
}

// pageSet is a line about one set.
type pageSet struct {
	State             State
	Name, Description string
}

// render returns the page.
func render(query Query, s Session, v view) []byte {
	data := pageData{
		Policy: pagePolicy, Title: query.Title, Says: v.says, More: v.more, Mood: v.mood,
		Refresh: int(query.Refresh / time.Second), Sets: pageSets(query, s),
	}
	data.Interval = fmt.Sprintf("%d seconds", data.Refresh)
	if data.Refresh == 1 {
		data.Interval = "second"
	}
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, data); err != nil {
		panic(fmt.Sprintf("rendering the page: %v", err)) // unreachable: a buffer takes every write, and the data are plain
	}
	return page.Bytes()
}

// pageSets returns the lines about the sets if the request wants details.
func pageSets(query Query, s Session) []pageSet {
	if !query.Details {
		return nil
	}
	var sets []pageSet
	for _, set := range s.Sets {
		sets = append(sets, pageSet{set.State, set.Name, text.Line(set.describe(), maxMessage)})
	}
	return sets
}

func unknownTheme(theme string) error {
	p := problem(http.StatusNotFound, "theme %.100q does not exist. Use one of availableTheme, or none", theme)
	p.RequestTheme, p.AvailableTheme = text.Line(theme, 100), themes
	return p
}

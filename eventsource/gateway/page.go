package gateway

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"strconv"
	"strings"
	"time"
)

// pageText is filled without html/template: with that linked, the linker keeps every exported method of every type, and the
// functions' binary grows by a third. Whatever is put in goes through html.EscapeString, and into text or a quoted
// attribute only.
//
//go:embed page.html
var pageText string

const pageKind = "text/html; charset=utf-8"

// themes are the names that a request may give: Drydock's own, and those that Sablier brings along
// (sablierapp/sablier pkg/theme/embedded). The page is the same for all.
var themes = []string{"drydock", "ghost", "hacker-terminal", "matrix", "shuffle"}

// pagePolicy lets the page have its own style, and nothing else. The plugins of Traefik, Caddy and nginx hand on no header
// but the content's type and length, so the page has the policy inside, too; frame-ancestors works in a header only.
var pagePolicy = "default-src 'none'; style-src 'sha256-" + styleHash() + "'; img-src data:; base-uri 'none'; form-action 'none'"

func styleHash() string {
	_, style, _ := strings.Cut(pageText, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// showPage answers with the page, also for what is wrong and may pass: a set that is paused, an API server that is away.
// The status says it to those who look at it.
func showPage(path string, ask Ask, s Session, err error) answer {
	a := answer{code: statusOK, kind: pageKind, ready: err == nil && s.Ready()}
	look := viewOf(s)
	if err == nil {
		err = s.refused()
	}
	if err != nil {
		p := problemOf(err)
		if p.Status == statusNotFound {
			return refuse(path, err) // a configuration that has to be changed
		}
		a.code, a.problem, a.err = p.Status, p, err
		if look = away; p.Status == statusConflict {
			look = held(s)
		}
	}
	a.body = []byte(render(ask, s, look))
	return a
}

// view is what the page says of all sets together.
type view struct {
	mood string // a class of the style
	says string // after the title
	more string
}

var (
	awake  = view{"ready", "is ready", "It opens at the next look."}
	rising = view{"waking", "is waking up", "It sleeps while nobody uses it. It opens by itself as soon as it is ready."}
	broken = view{"failed", "has trouble waking up", "Its administrator can see why. It opens by itself once it is ready."}
	halted = view{"paused", "is paused", "Its administrator has paused it on purpose. It opens by itself once that is over."}
	off    = view{"paused", "is switched off", "A visit does not start it. Its administrator can."}
	away   = view{"failed", "cannot be reached at the moment", "It is not known whether it is asleep. This usually passes within moments."}
)

// held is the view of a session with a set that no visit wakes.
func held(s Session) view {
	for _, set := range s.Sets {
		if set.Needed && set.State == Paused {
			return halted
		}
	}
	return off
}

func viewOf(s Session) view {
	look := rising
	for _, set := range s.Sets {
		if set.Needed && set.State == Failed {
			look = broken
		}
	}
	if s.Ready() {
		look = awake
	}
	return look
}

func render(ask Ask, s Session, look view) string {
	seconds := int(ask.Refresh / time.Second)
	every := fmt.Sprintf("%d seconds", seconds)
	if seconds == 1 {
		every = "second"
	}
	return strings.NewReplacer(
		"{{policy}}", html.EscapeString(pagePolicy),
		"{{refresh}}", strconv.Itoa(seconds),
		"{{every}}", every,
		"{{mood}}", look.mood,
		"{{title}}", html.EscapeString(ask.Title),
		"{{says}}", look.says,
		"{{more}}", look.more,
		"{{sets}}", details(ask, s),
	).Replace(pageText)
}

// longestMessage bounds a message on the page, in runes.
const longestMessage = 300

// details lists the sets, if the request wants that.
func details(ask Ask, s Session) string {
	if !ask.Details || len(s.Sets) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<ul>\n")
	for _, set := range s.Sets {
		fmt.Fprintf(&b, "<li class=\"%s\"><b>%s</b> <span>%s</span></li>\n",
			set.State, html.EscapeString(set.Name), html.EscapeString(clean(set.describe(), longestMessage)))
	}
	b.WriteString("</ul>")
	return b.String()
}

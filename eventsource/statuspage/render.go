package statuspage

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"drydock.dev/shared/overview"
)

//go:embed page.html
var pageSource string

// templates render the document and its fragments. They escape all data.
var templates = template.Must(template.New("page.html").Parse(pageSource))

// documentData is the input of the template of a whole page.
type documentData struct {
	Title  string
	Events string // the address of the stream of changes
	Search string
	Show   string
	Main   template.HTML // a rendered fragment
}

// renderDocument returns the whole page around the fragment.
func renderDocument(v view, f fragment) []byte {
	return render("document", documentData{
		Title: f.title, Events: v.events(), Search: v.search, Show: v.show,
		Main: template.HTML(f.html), // the output of another template of this package
	})
}

func renderList(v view, document overview.Document, now time.Time) fragment {
	data := listOf(v, document, now)
	return fragment{html: render("list", data), title: "StatefulSets", said: data.Summary}
}

func renderSet(f setFacts) fragment {
	data := setOf(f)
	return fragment{html: render("set", &data), title: data.Namespace + "/" + data.Name, said: data.said()}
}

func renderProblem(p Problem) []byte { return render("problem", p) }

func render(name string, data any) []byte {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		panic(fmt.Sprintf("rendering %s: %v", name, err)) // unreachable: a buffer takes every write, and the data are plain
	}
	return page.Bytes()
}

const htmlKind = "text/html; charset=utf-8"

// assets are the files that pages load. Pages load nothing else.
//
//go:embed page.js page.css
var assets embed.FS

// securityHeaders are in every answer. The page runs only its own script and style, sends no cookie, and no other page can contain it.
var securityHeaders = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// asset returns the file with the path and its media type, or nil.
func asset(path string) (body []byte, kind string) {
	switch path {
	case "/page.js":
		kind = "text/javascript; charset=utf-8"
	case "/page.css":
		kind = "text/css; charset=utf-8"
	default:
		return nil, ""
	}
	body, err := assets.ReadFile(path[1:])
	if err != nil {
		panic("reading an embedded file: " + err.Error()) // unreachable: the file is embedded
	}
	return body, kind
}

// write sends a complete body. The caller may have disconnected, so it ignores the error of the write.
func write(w http.ResponseWriter, kind string, body []byte) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	return nil
}

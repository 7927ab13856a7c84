package statuspage

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
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

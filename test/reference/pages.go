package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/otlptranslator"

	"drydock.dev/shared/moverreport"
)

// generated ends the introduction of every page.
const generated = "This page is generated from `%s`: run `make golden`.\n"

// ConstantsPage renders groups of constants as a page with a table for each group. A constant without a comment is an error: its row would
// be empty.
func ConstantsPage(title, introduction, source, column string, sections []Section) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n"+generated, title, wrap(introduction, ""), source)
	for _, s := range sections {
		if s.Title != "" {
			fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(s.Title, "."))
		}
		if column == "key" {
			b.WriteString("\n")
			for _, c := range s.Constants {
				if c.Doc == "" {
					return "", fmt.Errorf("%s: constant %s has no comment. Write a sentence for users", source, c.Name)
				}
				b.WriteString(entry("`"+c.Value+"`", names(sections, c.Doc)))
			}
			continue
		}
		fmt.Fprintf(&b, "\n| %s | meaning |\n|---|---|\n", column)
		for _, c := range s.Constants {
			if c.Doc == "" {
				return "", fmt.Errorf("%s: constant %s has no comment. Write a sentence for users", source, c.Name)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Value, cell(c.Doc))
		}
	}
	return b.String(), nil
}

// names replaces the Go names of the constants in the text by their values.
func names(sections []Section, text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		name := strings.TrimRight(word, ".,:;")
		for _, s := range sections {
			for _, c := range s.Constants {
				if c.Name == name {
					words[i] = "`" + c.Value + "`" + word[len(name):]
				}
			}
		}
	}
	return strings.Join(words, " ")
}

// With returns the sections with those constants only whose value has the prefix.
func With(prefix string, sections []Section) []Section {
	var found []Section
	for _, s := range sections {
		s.Constants = slices.DeleteFunc(slices.Clone(s.Constants), func(c Constant) bool {
			return !ast.IsExported(c.Name) || !strings.HasPrefix(c.Value, prefix) || c.Value == prefix
		})
		if len(s.Constants) > 0 {
			found = append(found, s)
		}
	}
	return found
}

// Settings are the settings of a program, by the name of their section.
type Settings struct {
	Title string
	Spec  any
}

// SettingsPage renders the struct tags envconfig, flag, default and desc.
func SettingsPage(programs []Settings) string {
	var b strings.Builder
	b.WriteString("# Settings\n\nFunctions read their settings from environment variables. On Knative, these are the keys of the ConfigMap\n" +
		"`drydock-settings`.\n")
	fmt.Fprintf(&b, "\n"+generated, "shared/api/settings.go")
	for _, p := range programs {
		fmt.Fprintf(&b, "\n## %s\n\n| variable | default | meaning |\n|---|---|---|\n", p.Title)
		t := reflect.TypeOf(p.Spec)
		for i := range t.NumField() {
			f := t.Field(i)
			if name := f.Tag.Get("envconfig"); name != "" {
				flag := ""
				if f.Tag.Get("flag") != "" {
					flag = " Flag `--" + f.Tag.Get("flag") + "`."
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", name, f.Tag.Get("default"), cell(sentence(f.Tag.Get("desc"))), flag)
			}
		}
	}
	return b.String()
}

// ExitCodesPage renders the exit codes of the mover and those of the commands.
func ExitCodesPage() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n")
	b.WriteString(wrap("`drydock serve` and `drydock call` end with 0, with 1 after an error, or with 2 after wrong arguments. "+
		"`kubectl drydock` ends with 0, or with 1 after an error or when a plan would be refused. "+
		"The table has the exit codes of `drydock copy`, which runs in the pods of movers.", "") + "\n\n")
	fmt.Fprintf(&b, generated, "shared/moverreport/codes.go")
	b.WriteString("\n| code | meaning | the same copy may succeed if it is tried again |\n|---|---|---|\n")
	for _, code := range moverreport.Codes() {
		again := "no"
		if moverreport.Retryable(code) {
			again = "yes"
		}
		if code == moverreport.CodeOK {
			again = ""
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", code, cell(sentence(moverreport.Explain(code))), again)
	}
	return b.String()
}

// Metric is an instrument, as a Go file makes it.
type Metric struct {
	Name, Kind, Unit, Description string
}

// Metrics returns the instruments that a Go file makes by calls such as meter.Int64Counter("name", metric.WithUnit("s"), ...).
func Metrics(path string, source any) ([]Metric, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the instruments: %w", err)
	}
	var found []Metric
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		kind, name := kindOf(method.Sel.Name), literal(call.Args[0])
		if kind == "" || name == "" {
			return true
		}
		m := Metric{Name: name, Kind: kind}
		for _, option := range call.Args[1:] {
			switch of, value := optionOf(option); of {
			case "WithUnit":
				m.Unit = value
			case "WithDescription":
				m.Description = value
			}
		}
		found = append(found, m)
		return true
	})
	return found, nil
}

// kindOf returns the kind of instrument that a method of a meter makes; empty if it makes none.
func kindOf(method string) string {
	if !strings.HasPrefix(method, "Int64") && !strings.HasPrefix(method, "Float64") {
		return ""
	}
	for suffix, kind := range map[string]string{"UpDownCounter": "gauge", "Gauge": "gauge", "Histogram": "histogram"} {
		if strings.HasSuffix(method, suffix) {
			return kind
		}
	}
	if strings.HasSuffix(method, "Counter") {
		return "counter"
	}
	return ""
}

func optionOf(e ast.Expr) (name, value string) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", ""
	}
	if method, ok := call.Fun.(*ast.SelectorExpr); ok {
		return method.Sel.Name, literal(call.Args[0])
	}
	return "", ""
}

// literal returns the value of a string, or of a sum of strings; empty for anything else.
func literal(e ast.Expr) string {
	value, _ := evaluate(e, nil)
	return value
}

// MetricsPage renders the instruments of all sources, sorted by their names in Prometheus.
func MetricsPage(bySource map[string][]Metric) (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nThe names are those on the page `/metrics`. Over OTLP, the names have dots and no unit.\n" +
		"[Telemetry](../telemetry.md) explains the labels.\n\n")
	b.WriteString("This page is generated from the code that makes the instruments: run `make golden`.\n")
	var rows []string
	for _, metrics := range bySource {
		for _, m := range metrics {
			name, err := prometheusName(m)
			if err != nil {
				return "", err
			}
			rows = append(rows, entry(fmt.Sprintf("`%s` (%s)", name, m.Kind), sentence(m.Description)))
		}
	}
	slices.Sort(rows)
	b.WriteString("\n" + strings.Join(rows, ""))
	return b.String(), nil
}

func prometheusName(m Metric) (string, error) {
	kinds := map[string]otlptranslator.MetricType{
		"gauge":     otlptranslator.MetricTypeGauge,
		"counter":   otlptranslator.MetricTypeMonotonicCounter,
		"histogram": otlptranslator.MetricTypeHistogram,
	}
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kinds[m.Kind]})
	if err != nil {
		return "", fmt.Errorf("naming metric %s: %w", strconv.Quote(m.Name), err)
	}
	return name, nil
}

// cell returns the text as it stands in a cell of a table.
func cell(words string) string { return strings.ReplaceAll(words, "|", `\|`) }

// width is the number of columns of generated prose.
const width = 120

// wrap breaks the text into lines of at most width columns. Each line after the first begins with the indent.
func wrap(words, indent string) string {
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(words) {
		switch length := utf8.RuneCountInString(word); {
		case i == 0:
			column += length
		case column+1+length > width:
			b.WriteString("\n" + indent)
			column = len(indent) + length
		default:
			b.WriteString(" ")
			column += 1 + length
		}
		b.WriteString(word)
	}
	return b.String()
}

// entry returns an item of a list: a name and its meaning.
func entry(name, meaning string) string {
	text := name
	if meaning != "" {
		text += ": " + meaning
	}
	return "- " + wrap(text, "  ") + "\n"
}

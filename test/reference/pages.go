package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/otlptranslator"

	"drydock.dev/shared/moverreport"
)

// generated names the source of a page.
func generated(source string) string {
	return wrap(fmt.Sprintf("This page is generated from %s: run `make golden`.", source))
}

// file returns the name of a file as the pages show it.
func file(name string) string { return "`" + name + "`" }

// ConstantsPage renders groups of constants as a page with a list for each group. A constant without a comment is an error: its item would
// be empty.
func ConstantsPage(title, introduction, source string, sections []Section) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s%s", title, wrap(introduction), generated(file(source)))
	for _, s := range sections {
		if s.Title != "" {
			fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(s.Title, "."))
		}
		b.WriteString("\n")
		for _, c := range s.Constants {
			if c.Doc == "" {
				return "", fmt.Errorf("%s: constant %s has no comment. Write a sentence for users", source, c.Name)
			}
			b.WriteString(wrapItem(fmt.Sprintf("- `%s`: %s", c.Value, c.Doc)))
		}
	}
	return b.String(), nil
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

// ExitCodesPage renders the exit codes of the mover and those of the commands.
func ExitCodesPage() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n" + wrap("The exit codes of `drydock copy`, which runs in the pods of movers. "+
		"`drydock serve` and `drydock call` end with 0, or with 1 after an error and 2 after wrong arguments. "+
		"`drydock call` ends with 3 if the answer of the URL rules out a retry. "+
		"`kubectl drydock` ends with 0. It ends with 1 after an error, if a request would be refused, if `kubectl drydock doctor` finds a "+
		"problem, without consent, and if an operation that it waits for does not succeed. It ends with 3 if such an operation still runs "+
		"after `--timeout`.") +
		generated(file("shared/moverreport/codes.go")))
	b.WriteString("\n| code | meaning | may a retry succeed? |\n|---|---|---|\n")
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

// MetricsPage renders the instruments under their names in Prometheus.
func MetricsPage(metrics []Metric) (string, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + wrap("The names are those on the page `/metrics`. Over OTLP, the names have dots and no unit. "+
		"What the labels mean: [telemetry](../telemetry.md).") + generated("the code that makes the instruments") + "\n")
	var items []string
	for _, m := range metrics {
		name, err := prometheusName(m)
		if err != nil {
			return "", err
		}
		items = append(items, wrapItem(fmt.Sprintf("- `%s` (%s): %s", name, m.Kind, sentence(m.Description))))
	}
	slices.Sort(items)
	b.WriteString(strings.Join(items, ""))
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

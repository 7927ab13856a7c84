package monitoring

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// documented returns the names on docs/reference/metrics.md, which is generated from the code.
func documented(t testing.TB) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^- `(\\w+)` \\((\\w+)\\)").FindAllStringSubmatch(string(page), -1) {
		names[m[1]] = true
		if m[2] == "histogram" {
			names[m[1]+"_bucket"], names[m[1]+"_count"], names[m[1]+"_sum"] = true, true, true
		}
	}
	return names
}

// unknown returns the metrics of the expression that are not documented, sorted.
func unknown(t testing.TB, expression string, documented map[string]bool) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return nil
	}
	missing := map[string]bool{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !documented[selector.Name] {
			missing[selector.Name] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(missing))
}

func TestAlertsUseDocumentedMetrics(t *testing.T) {
	names := documented(t)
	for _, alert := range alertingRules(alerts(t, ruleFile(t), nil)) {
		if missing := unknown(t, alert.Query().String(), names); len(missing) > 0 {
			t.Errorf("alert %s uses %v, which docs/reference/metrics.md does not have", alert.Name(), missing)
		}
	}
}

func TestUnknownMetricsAreFound(t *testing.T) {
	if got := unknown(t, "rate(a_total[5m]) + b", map[string]bool{"b": true}); !slices.Equal(got, []string{"a_total"}) {
		t.Errorf("%v", got)
	}
}

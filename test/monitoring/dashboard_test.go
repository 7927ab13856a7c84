package monitoring

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panels returns the panels of the dashboard, without rows. It reads the dashboard twice: by Grafana's strict schema, which refuses unknown
// fields, wrong types and missing fields, but leaves out the panels of a correct dashboard; and for its content.
func panels(text []byte) ([]*dashboard.Panel, error) {
	plugins := cog.NewRuntime()
	plugins.RegisterPanelcfgVariant(stat.VariantConfig())
	plugins.RegisterPanelcfgVariant(timeseries.VariantConfig())
	plugins.RegisterDataqueryVariant(prometheus.VariantConfig())
	strict, whole := &dashboard.Dashboard{}, &dashboard.Dashboard{}
	all := errors.Join(problems(strict.UnmarshalJSONStrict(text)), json.Unmarshal(text, whole))
	all = errors.Join(all, problems(whole.Validate()))
	var found []*dashboard.Panel
	for _, one := range whole.Panels {
		if one.Panel != nil {
			found = append(found, one.Panel)
		}
	}
	return found, all
}

// problems returns the error, or nil for an empty list of errors, which the schema's functions return for a correct value.
func problems(err error) error {
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}

func dashboardText(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config/monitoring/dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDashboardFollowsGrafanasSchema: each panel also has a description, its own id and place, and expressions over documented metrics.
func TestDashboardFollowsGrafanasSchema(t *testing.T) {
	read, err := panels(dashboardText(t))
	if err != nil {
		t.Fatal(err)
	}
	names, ids := documented(t), map[uint32]bool{}
	var placed []dashboard.GridPos
	for _, panel := range read {
		title := *panel.Title
		if panel.Description == nil || *panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %s has no description or no expression", title)
		}
		if _, known := cog.ConfigForPanelcfgVariant(panel.Type); !known {
			t.Errorf("panel %s has type %s, whose schema is not tested", title, panel.Type)
		}
		if ids[*panel.Id] {
			t.Errorf("panel %s has the id of another one", title)
		}
		ids[*panel.Id] = true
		for _, other := range placed {
			if overlap(*panel.GridPos, other) {
				t.Errorf("panel %s overlaps another one", title)
			}
		}
		placed = append(placed, *panel.GridPos)
		for _, target := range panel.Targets {
			query, ok := target.(*prometheus.Dataquery)
			if !ok {
				t.Errorf("panel %s asks %T, not Prometheus", title, target)
				continue
			}
			if missing := unknown(t, withoutVariables(query.Expr), names); len(missing) > 0 {
				t.Errorf("panel %s shows %v, which docs/reference/metrics.md does not have", title, missing)
			}
		}
	}
	if len(placed) == 0 {
		t.Error("no panel was checked")
	}
}

// withoutVariables replaces Grafana's variables by values.
func withoutVariables(expression string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range_s", "3600", "$__range", "1h").Replace(expression)
}

func overlap(a, b dashboard.GridPos) bool {
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// TestWrongDashboardsAreRefused shows that the schema is strict, also inside of panels and expressions.
func TestWrongDashboardsAreRefused(t *testing.T) {
	text := string(dashboardText(t))
	for situation, wrong := range map[string]string{
		"an unknown field of the dashboard": strings.Replace(text, `"refresh"`, `"refreshes"`, 1),
		"an unknown option of a panel":      strings.Replace(text, `"graphMode"`, `"graphMood"`, 1),
		"an unknown field of an expression": strings.Replace(text, `"legendFormat"`, `"legend"`, 1),
		"a number as a title":               strings.Replace(text, `"title": "Drydock"`, `"title": 1`, 1),
		"an unknown color mode":             strings.Replace(text, `"palette-classic"`, `1`, 1),
	} {
		if wrong == text || !json.Valid([]byte(wrong)) {
			t.Errorf("%s: the test changed nothing, or broke the JSON", situation)
		}
		if _, err := panels([]byte(wrong)); err == nil {
			t.Errorf("%s is accepted", situation)
		}
	}
}

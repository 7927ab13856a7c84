// Package monitoring tests config/monitoring: the alerts with Prometheus' own evaluation, the dashboard with Grafana's schema. It is a
// module of its own, because both are large.
package monitoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// manifest is the part of a PrometheusRule that Prometheus reads as a rule file.
type manifest struct {
	Spec yaml.Node `yaml:"spec"`
}

// ruleFile writes the rules of the manifest into a file as Prometheus reads it, and returns its path.
func ruleFile(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config/monitoring/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(&m.Spec)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// alerts loads the groups of the rule file. The loader evaluates them; without one, they can only be read.
func alerts(t testing.TB, file string, loader *promqltest.LazyLoader) []*rules.Group {
	t.Helper()
	options := &rules.ManagerOptions{Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
		Parser: parser.NewParser(parser.Options{}), NotifyFunc: func(context.Context, string, ...*rules.Alert) {}}
	if loader != nil {
		options.QueryFunc = rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage())
		options.AppendableV2 = loader.Storage()
	}
	groups, errs := rules.NewManager(options).LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 {
		t.Fatal(errors.Join(errs...))
	}
	var all []*rules.Group
	for _, g := range groups {
		all = append(all, g)
	}
	return all
}

// alertingRules returns the alerts of the groups.
func alertingRules(groups []*rules.Group) []*rules.AlertingRule {
	var all []*rules.AlertingRule
	for _, g := range groups {
		for _, r := range g.Rules() {
			if alert, ok := r.(*rules.AlertingRule); ok {
				all = append(all, alert)
			}
		}
	}
	return all
}

// firing evaluates all alerts each minute until the time, on the series. It returns those that fire then, sorted by name.
func firing(t testing.TB, file string, series []string, until time.Duration) []*rules.Alert {
	t.Helper()
	loader, err := promqltest.NewLazyLoader("load 1m\n  "+strings.Join(series, "\n  "),
		promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := loader.Close(); err != nil {
			t.Error(err)
		}
	}()
	groups := alerts(t, file, loader)
	for _, alert := range alertingRules(groups) {
		alert.SetRestored(true) // otherwise Prometheus looks for the state before its start
	}
	start := time.Unix(0, 0).UTC()
	for at := time.Duration(0); at <= until; at += time.Minute {
		loader.WithSamplesTill(start.Add(at), func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(loader.Context(), start.Add(at))
			}
		})
	}
	var found []*rules.Alert
	for _, alert := range alertingRules(groups) {
		if err := alert.LastError(); err != nil {
			t.Fatal(fmt.Errorf("evaluating %s: %w", alert.Name(), err))
		}
		for _, a := range alert.ActiveAlerts() {
			if a.State == rules.StateFiring {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, func(a, b *rules.Alert) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return found
}

func nameOf(alert *rules.Alert) string { return alert.Labels.Get(labels.AlertName) }

package monitoring

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// situation is what Prometheus has read until a time, and the alerts that fire then.
type situation struct {
	// series are in the notation of promtool, with a value each minute: "3x10" is eleven times 3, "_x10" a gap of ten minutes. The series
	// of a sweep each minute is added, unless the situation has its own or noSweeps.
	series []string
	until  time.Duration
	fires  []string
}

const (
	sweeps   = "drydock_sweep_timestamp_seconds"
	noSweeps = "up 1x60"
)

// broken matches the text of a template that Prometheus could not expand.
var broken = regexp.MustCompile(`<error|<no value>|\{\{`)

// fires returns a situation in which exactly one alert fires after so many minutes, silent one without an alert.
func fires(alert string, minutes int, series ...string) situation {
	return situation{series, time.Duration(minutes) * time.Minute, []string{alert}}
}

func silent(minutes int, series ...string) situation {
	return situation{series, time.Duration(minutes) * time.Minute, nil}
}

// of returns the series of a gauge of the sweep, as the first pod of sift shows it. Words are the values of its labels: a kind, a phase.
func of(gauge, values string, words ...string) string { return from("sift-1", gauge, values, words...) }

// from returns the series of the gauge as a pod shows it.
func from(pod, gauge, values string, words ...string) string {
	labels := fmt.Sprintf("namespace=%q,pod=%q,instance=%q", "drydock", pod, pod)
	for i, word := range words {
		labels += fmt.Sprintf(",%s=%q", []string{"drydock_kind", "drydock_phase"}[i], word)
	}
	return gauge + "{" + labels + "} " + values
}

// held returns the series of a member that is held from the beginning, with the counts of held members.
func held(count, since string) []string {
	return []string{of("drydock_members_held", count), of("drydock_member_held_timestamp_seconds", since)}
}

// paused returns the series of an owner that is paused from the beginning for an operation of the kind.
func paused(kind, count, since string) []string {
	return []string{of("drydock_owners_paused", count, kind), of("drydock_owner_paused_timestamp_seconds", since, kind)}
}

// wakes returns the buckets of wake-ups of a pod: the values for 60 s, 120 s, 300 s and all.
func wakes(pod string, values ...string) []string {
	var series []string
	for i, le := range []string{"60", "120", "300", "+Inf"} {
		series = append(series, fmt.Sprintf("drydock_wake_duration_seconds_bucket{pod=%q,le=%q} %s", pod, le, values[i]))
	}
	return series
}

// beforeAndAfterGap returns the series of sweeps and of slow wake-ups that Prometheus did not read for more than two hours. One wake-up was
// slow before that gap. after are the counts after it.
func beforeAndAfterGap(after string) []string {
	return append(wakes("standalone-0", "0x59 _x130 0x120", "0x59 _x130 0x120", "1x59 _x130 "+after, "1x59 _x130 "+after),
		of(sweeps, "0+60x59 _x130 11400+60x120"))
}

// answers returns the series of the answers of function backup with the HTTP status.
func answers(code, count string) string {
	return fmt.Sprintf("http_server_request_duration_seconds_count{faas_name=%q,http_response_status_code=%q} %s", "backup", code, count)
}

const (
	operations = "drydock_operations"
	overdue    = "drydock_operations_overdue"
	oldest     = "drydock_operation_oldest_timestamp_seconds"
	letters    = "drydock_dead_letters"
	retained   = "drydock_volumes_retained_bytes"
	growing    = `drydock_growth_stuck{k8s_namespace_name="shop",k8s_statefulset_name="web",pod="grow-volumes-1"} `
	foreign    = `http_server_request_duration_seconds_count{http_response_status_code="503"} `
	oneTiB     = "1099511627776"
	twoTiB     = "2199023255552"
)

const day = 24 * 60 // minutes

var situations = map[string]situation{
	"sweeps, and nothing else": silent(120),

	"no sweep for 21 minutes":         fires("DrydockNoSweep", 31, of(sweeps, "0+60x10 _x40")),
	"no sweep for 15 minutes":         silent(25, of(sweeps, "0+60x10 _x40")),
	"no sweep since the installation": fires("DrydockNoSweep", 6, noSweeps),
	"sweeps with gaps of ten minutes": silent(40, of(sweeps, "0 _x9 600 _x9 1200 _x9 1800 _x9 2400")),
	"no sweep in one of two clusters": fires("DrydockNoSweep", 31, of(sweeps, "0+60x40"),
		sweeps+`{cluster="b",pod="sift-9",instance="sift-9"} 0+60x10 _x40`),
	"another pod sweeps": silent(60, of(sweeps, "0+60x10"), from("sift-2", sweeps, "_x11 660+60x60")),

	"a member is held for 36 minutes":      fires("DrydockMemberHeldLong", 36, held("1x60", "0x60")...),
	"a member is held for 30 minutes":      silent(30, held("1x60", "0x60")...),
	"a member was held for 34 minutes":     silent(40, held("1x34 0x30", "0x34")...),
	"members are held one after the other": silent(80, held("1x90", "0x20 1260x20 2520x20 3780x20")...),
	"a member is held, and the scrapes have gaps": fires("DrydockMemberHeldLong", 40,
		held("1 _x6 1 _x6 1 _x6 1 _x6 1 _x6 1 _x6 1", "0 _x6 0 _x6 0 _x6 0 _x6 0 _x6 0 _x6 0")...),

	"a record cannot be read": fires("DrydockRecordUnreadable", 5, of(operations, "1x60", "Resize", "Unreadable")),
	"all records can be read": silent(60, of(operations, "0x60", "Resize", "Unreadable")),
	"a record was unreadable": silent(20, of(operations, "1x10 0x60", "Resize", "Unreadable")),

	"an operation is overdue":  fires("DrydockOperationStuck", 15, of(overdue, "1x60", "Resize")),
	"an operation was overdue": silent(15, of(overdue, "1x5 0x60", "Resize")),
	"an operation is overdue, and another pod sees it then": fires("DrydockOperationStuck", 20, of(overdue, "1x8", "Resize"),
		from("sift-2", overdue, "_x9 1x60", "Resize")),

	"an operation has failed":            fires("DrydockOperationFailed", 5, of(operations, "2x60", "Resize", "Failed")),
	"a failed operation was tried again": silent(12, of(operations, "2x10 0x60", "Resize", "Failed")),
	"operations run":                     silent(300, of(operations, "9x300", "Resize", "Moving")),

	"a request was refused an hour ago":          fires("DrydockOperationRefused", 60, of(operations, "1x90", "Resize", "Refused")),
	"a request was refused, and then it was not": silent(61, of(operations, "1x50 0x90", "Resize", "Refused")),

	"a set has tried to wake up for more than an hour": fires("DrydockWakeStuck", 80, of(oldest, "0x200", "Sleep")),
	"a set wakes up for half an hour":                  silent(60, of(oldest, "0x30 _x60", "Sleep")),
	"sets wake up one after the other":                 silent(120, of(oldest, "0x40 2400x40 4800x40", "Sleep")),

	"a cleanup runs for more than a day": fires("DrydockCleanupLong", day+16, of(oldest, "0x1500", "Cleanup")),
	"a cleanup runs for 23 hours":        silent(day-60, of(oldest, "0x1500", "Cleanup")),
	"a resize runs for 25 hours":         silent(day+60, of(oldest, "0x1600", "Resize")),

	"an owner is paused for no operation":       fires("DrydockOwnerPausedLong", 30, paused("None", "1x60", "0x60")...),
	"an owner was paused for no operation":      silent(35, paused("None", "1x20 0x60", "0x20")...),
	"an owner is paused for a resize for a day": silent(day+120, paused("Resize", "1x1700", "0x1700")...),
	"an owner is paused for a resize for longer": fires("DrydockOwnerPausedLong", day+180,
		paused("Resize", "1x1700", "0x1700")...),
	"an owner is paused for a sleep for two days": silent(2*day, paused("Sleep", "1x3000", "0x3000")...),

	"there are dead letters":          fires("DrydockDeadLetters", 15, of(letters, "3x60")),
	"an event was sent again at once": silent(20, of(letters, "3x10 0x60")),

	"a volume does not grow, and the pod ends": fires("DrydockGrowthStuck", 20, growing+"1 _x4 1 _x4 1 _x4 1 _x4 1"),
	"a volume has grown":                       silent(30, growing+"1x5"),

	"old volumes of 2 TiB":             fires("DrydockRetainedBytesHigh", 60, of(retained, twoTiB+"x90")),
	"old volumes of 1 TiB":             silent(60, of(retained, oneTiB+"x90")),
	"old volumes of 2 TiB for a while": silent(90, of(retained, twoTiB+"x40 0x60")),

	"the only wake-up of a pod was slow, and the pod is gone": fires("DrydockWakeSlow", 10,
		wakes("i-1", "0x3", "0x3", "1x3", "1x3")...),
	"five of twenty wake-ups were slow":                  fires("DrydockWakeSlow", 10, wakes("i-1", "10x30", "15x30", "20x30", "20x30")...),
	"one of twenty wake-ups was slow":                    silent(10, wakes("i-1", "10x30", "19x30", "20x30", "20x30")...),
	"a wake-up was slow two hours ago":                   silent(120, wakes("i-1", "0x3", "0x3", "1x3", "1x3")...),
	"a wake-up was slow two hours ago, and the pod runs": silent(120, wakes("i-1", "0x130", "0x130", "1x130", "1x130")...),
	"the process with a slow wake-up has started again": silent(91,
		wakes("i-1", "0x30 1x60", "0x30 1x60", "9x30 1x60", "9x30 1x60")...),
	"wake-ups are slow after the process has started again": fires("DrydockWakeSlow", 110,
		wakes("standalone-0", "100x59 0x120", "100x59 0x120", "100x59 0+1x120", "100x59 0+1x120")...),
	"a slow wake-up after a start was more than an hour ago": silent(205,
		wakes("standalone-0", "9x129 0x120", "9x129 0x120", "9x129 1x120", "9x129 1x120")...),
	"a wake-up was slow before a gap of Prometheus":                                silent(215, beforeAndAfterGap("1x120")...),
	"a wake-up was slow before a gap of Prometheus, and none in the hour after it": silent(258, beforeAndAfterGap("1x120")...),
	"a wake-up was slow after a gap of Prometheus": fires("DrydockWakeSlow", 258,
		beforeAndAfterGap("1x10 2x110")...),
	"wake-ups are fast": silent(60, wakes("i-1", "0+1x60", "0+1x60", "0+1x60", "0+1x60")...),

	"a function fails for more than an hour":                fires("DrydockEventsFail", 65, answers("503", "0+1x90")),
	"a function failed for some minutes":                    silent(65, answers("503", "0+1x10 10x60")),
	"a function accepts events":                             silent(65, answers("204", "0+1x90")),
	"a function refuses events and fails later":             silent(90, answers("400", "0+1x90"), answers("500", "_x80 0+1x20")),
	"each pod of a function fails, and ends after a minute": fires("DrydockEventsFail", 4*60, shortLived(24)...),
	"another service has the metric":                        silent(65, foreign+"0+1x90"),
}

func TestAlertsFireWhenTheyMust(t *testing.T) {
	file := ruleFile(t)
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := situations[name]
			if !slices.ContainsFunc(s.series, func(one string) bool { return one == noSweeps || strings.HasPrefix(one, sweeps) }) {
				s.series = append(slices.Clone(s.series), of(sweeps, "0+60x4000"))
			}
			var got []string
			for _, alert := range firing(t, file, s.series, s.until) {
				got = append(got, nameOf(alert))
				for _, key := range []string{"summary", "description"} {
					if text := alert.Annotations.Get(key); text == "" || broken.MatchString(text) {
						t.Errorf("the %s of %s is %q", key, nameOf(alert), text)
					}
				}
			}
			if !slices.Equal(got, s.fires) {
				t.Errorf("%v fire, want %v", got, s.fires)
			}
		})
	}
}

// shortLived returns the series of pods that each answer five events with errors before their first export, and then end. A pod comes
// every ten minutes.
func shortLived(pods int) []string {
	var series []string
	for i := range pods {
		before := ""
		if i > 0 {
			before = fmt.Sprintf("_x%d ", 10*i-1)
		}
		series = append(series, fmt.Sprintf(
			`http_server_request_duration_seconds_count{faas_name="backup",http_response_status_code="503",pod="p%d"} %s5x1`, i, before))
	}
	return series
}

// TestPauseWithoutOperationIsNotCalledOperation: kind None is no operation, so its description has its own sentence.
func TestPauseWithoutOperationIsNotCalledOperation(t *testing.T) {
	for kind, want := range map[string]string{
		"None":   "Drydock has paused it. No operation needs the pause.",
		"Resize": "Drydock has paused it. A Resize has needed the pause for 1d 3h 0m 0s.",
	} {
		series := append(paused(kind, "1x1700", "0x1700"), of(sweeps, "0+60x4000"))
		alerts := firing(t, ruleFile(t), series, 27*time.Hour)
		if len(alerts) != 1 || !strings.HasSuffix(alerts[0].Annotations.Get("description"), want) {
			t.Errorf("kind %s: %v, want a description that ends with %q", kind, alerts, want)
		}
	}
}

// TestEveryAlertIsTested: each alert fires in some situation, and in no other.
func TestEveryAlertIsTested(t *testing.T) {
	fired := map[string]bool{}
	for _, s := range situations {
		for _, alert := range s.fires {
			fired[alert] = true
		}
	}
	for _, alert := range alertingRules(alerts(t, ruleFile(t), nil)) {
		if !fired[alert.Name()] {
			t.Errorf("alert %s fires in no situation", alert.Name())
		}
	}
}

// TestEveryAlertIsExplained: docs/alerts.md has a section for each alert, in the order of the rules. The alert names the command that
// shows it.
func TestEveryAlertIsExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/alerts.md"))
	if err != nil {
		t.Fatal(err)
	}
	var headings, names []string
	for _, m := range regexp.MustCompile(`(?m)^### (Drydock\w+)$`).FindAllStringSubmatch(string(page), -1) {
		headings = append(headings, m[1])
	}
	for _, alert := range alertingRules(alerts(t, ruleFile(t), nil)) {
		names = append(names, alert.Name())
		command := "kubectl drydock explain " + alert.Name()
		if got := alert.Annotations().Get("runbook"); got != command {
			t.Errorf("the runbook of %s is %q, want %q", alert.Name(), got, command)
		}
		severity := alert.Labels().Get("severity")
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("the severity of %s is %q", alert.Name(), severity)
		}
		if row := regexp.MustCompile(`(?m)^\| \[` + alert.Name() + `\]\(#\w+\) \| ` + severity + ` \|`); !row.Match(page) {
			t.Errorf("the table of docs/alerts.md has no row with %s and %s", alert.Name(), severity)
		}
	}
	if !slices.Equal(headings, names) {
		t.Errorf("docs/alerts.md explains %v, the alerts are %v", headings, names)
	}
}

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

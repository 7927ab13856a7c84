package idle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/window"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// same compares rules. Two zones are equal if they have the same name.
var same = cmp.Options{cmp.AllowUnexported(window.Window{}),
	cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })}

func TestRead(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	monday, err := window.Parse("Mon 08:00-09:30")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    Rules
	}{
		"nothing":                      {nil, Rules{}},
		"paused":                       {[]build.Option{build.Paused()}, Rules{Paused: true}},
		"paused=false":                 {[]build.Option{build.Annotation(api.PausedAnnotation, "false")}, Rules{}},
		"an empty paused annotation":   {[]build.Option{build.Annotation(api.PausedAnnotation, "")}, Rules{}},
		"a timeout":                    {[]build.Option{build.IdleTimeout("1h30m")}, Rules{Timeout: 90 * time.Minute}},
		"the shortest timeout":         {[]build.Option{build.IdleTimeout("10s")}, Rules{Timeout: 10 * time.Second}},
		"the longest timeout":          {[]build.Option{build.IdleTimeout("8784h")}, Rules{Timeout: 366 * 24 * time.Hour}},
		"an activity":                  {[]build.Option{build.LastActivity(0)}, Rules{LastActivity: noon}},
		"awake-until is in the future": {[]build.Option{build.AwakeFor(time.Hour)}, Rules{AwakeUntil: noon.Add(time.Hour)}},
		"a minimum uptime":             {[]build.Option{build.Annotation(api.MinUptimeAnnotation, "5m")}, Rules{MinUptime: 5 * time.Minute}},
		"names are sorted and unique":  {[]build.Option{build.DependsOn("queue ", " db", "db")}, Rules{DependsOn: []string{"db", "queue"}}},
		"replicas":                     {[]build.Option{build.Annotation(api.WakeReplicasAnnotation, "1000")}, Rules{WakeReplicas: 1000}},
		"a probe": {[]build.Option{build.Annotation(api.ActivityProbeAnnotation, "tcp:5432")},
			Rules{Probe: &probe.Probe{Kind: probe.TCP, Port: 5432}}},
		"a window": {[]build.Option{build.Annotation(api.KeepWarmAnnotation, "Mon 08:00-09:30")},
			Rules{KeepWarm: monday}},
		"a group": {[]build.Option{build.InGroup("shop")}, Rules{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRules(build.Set("web", row.options...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got, same); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	zone := time.FixedZone("", 3600)
	if got, err := ParseRules(build.Set("web", build.Annotation(api.AwakeUntilAnnotation, "2026-03-01T13:00:00.5+01:00"))); err != nil ||
		!got.AwakeUntil.Equal(time.Date(2026, time.March, 1, 13, 0, 0, 5e8, zone)) {
		t.Errorf("a time in another zone is %s, %v", got.AwakeUntil, err)
	}
}

// TestInvalidAnnotationsAreExplained: the error names the annotation, the set, the value, and a valid format.
func TestInvalidAnnotationsAreExplained(t *testing.T) {
	mistakes := map[string]struct{ key, text string }{
		"yes":                          {api.PausedAnnotation, "yes"},
		"a value with a capital":       {api.PausedAnnotation, "True"},
		"no duration":                  {api.IdleTimeoutAnnotation, "30"},
		"an empty duration":            {api.IdleTimeoutAnnotation, ""},
		"zero":                         {api.IdleTimeoutAnnotation, "0s"},
		"a negative duration":          {api.IdleTimeoutAnnotation, "-1h"},
		"a duration below the minimum": {api.IdleTimeoutAnnotation, "9.999s"},
		"a duration above the maximum": {api.IdleTimeoutAnnotation, "8785h"},
		"an invalid uptime":            {api.MinUptimeAnnotation, "long"},
		"a time of day":                {api.AwakeUntilAnnotation, "18:00"},
		"a time without a zone":        {api.AwakeUntilAnnotation, "2026-03-01T18:00:00"},
		"seconds since 1970":           {api.LastActivityAnnotation, "1772366400"},
		"no activity":                  {api.LastActivityAnnotation, ""},
		"no window":                    {api.KeepWarmAnnotation, ""},
		"no name":                      {api.DependsOnAnnotation, ""},
		"a comma too many":             {api.DependsOnAnnotation, "db,"},
		"a name with a namespace":      {api.DependsOnAnnotation, "shop/db"},
		"no replicas":                  {api.WakeReplicasAnnotation, "0"},
		"fewer than none":              {api.WakeReplicasAnnotation, "-1"},
		"very many replicas":           {api.WakeReplicasAnnotation, "1001"},
		"a number that overflows":      {api.WakeReplicasAnnotation, "99999999999"},
		"half a replica":               {api.WakeReplicasAnnotation, "1.5"},
		"an invalid probe":             {api.ActivityProbeAnnotation, "https://web"},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		row := mistakes[name]
		t.Run(name, func(t *testing.T) {
			_, err := ParseRules(build.Set("web", build.Annotation(row.key, row.text)))
			if err == nil {
				t.Fatal("the annotation is accepted")
			}
			for _, part := range []string{row.key, "StatefulSet shop/web"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			file.Entry(t, name, err.Error())
		})
	}
	t.Run("an empty group", func(t *testing.T) {
		_, err := ParseRules(build.Set("web", func(o metav1.Object) { o.SetLabels(map[string]string{api.GroupLabel: ""}) }))
		if err == nil {
			t.Fatal("the annotation is accepted")
		}
		file.Entry(t, "an empty group", err.Error())
	})
}

func TestAllInvalidAnnotationsAreReported(t *testing.T) {
	m := MemberOf(build.Set("web", build.IdleTimeout("soon"), build.DependsOn("a/b"), build.Paused()))
	got := m.InvalidMessage()
	for _, part := range []string{api.IdleTimeoutAnnotation, api.DependsOnAnnotation, "; the set stays awake until that is corrected"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not say %q", got, part)
		}
	}
	if strings.Contains(got, "\n") || !m.Rules.Paused {
		t.Errorf("%q, %+v", got, m.Rules)
	}
}

// TestLongAnnotationIsClippedInMessage: all annotations of a set may have 256 KiB together, and the message is stored in one of them.
func TestLongAnnotationIsClippedInMessage(t *testing.T) {
	for _, key := range []string{api.KeepWarmAnnotation, api.DependsOnAnnotation, api.IdleTimeoutAnnotation, api.ActivityProbeAnnotation} {
		m := MemberOf(build.Set("web", build.Annotation(key, strings.Repeat("prometheus:x ", 10_000))))
		if m.Err == nil || len(m.InvalidMessage()) > 2000 {
			t.Errorf("%s: the message has %d bytes", key, len(m.InvalidMessage()))
		}
	}
}

func TestThrottle(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: 0, 10 * time.Second: time.Second, 5 * time.Minute: 30 * time.Second, time.Hour: time.Minute, 24 * time.Hour: time.Minute,
	} {
		if got := Throttle(timeout); got != want {
			t.Errorf("%s of %s", got, timeout)
		}
	}
}

func TestStampIsParsed(t *testing.T) {
	at := time.Date(2026, time.March, 1, 13, 0, 0, 0, time.FixedZone("", 3600))
	r, err := ParseRules(build.Set("web", build.Annotation(api.LastActivityAnnotation, FormatTime(at))))
	if err != nil || !r.LastActivity.Equal(at) || FormatTime(at) != "2026-03-01T12:00:00Z" {
		t.Errorf("%s, %v", r.LastActivity, err)
	}
}

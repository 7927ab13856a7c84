package grow_test

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func all(string) bool { return true }

// heapMeter measures the heap while its text is read: without garbage, because the time of a collection depends on the machine.
type heapMeter struct {
	io.Reader
	unmeasured int    // bytes that were read since the heap was measured
	most       uint64 // bytes
}

// Read measures the heap before each part of the text.
func (m *heapMeter) Read(p []byte) (int, error) {
	const part = 128 << 10
	if m.unmeasured += len(p); m.unmeasured > part {
		m.measure()
		m.unmeasured = 0
	}
	return m.Reader.Read(p[:min(len(p), part)])
}

func (m *heapMeter) measure() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	m.most = max(m.most, stats.HeapAlloc)
	return m.most
}

// TestHostileSummaryTakesLittleMemory: root on a node decides what its kubelet answers.
func TestHostileSummaryTakesLittleMemory(t *testing.T) {
	const size = 2 << 20
	fill := func(head, element, tail string) string {
		return head + strings.Repeat(element+",", size/len(element)) + element + tail
	}
	report := `{"capacityBytes":9,"availableBytes":1,"pvcRef":{"namespace":"shop","name":"data-web-0"}}`
	for name, row := range map[string]struct {
		body string
		want int // claims
	}{
		"volumes that are null":     {fill(`{"pods":[{"volume":[`, "null", `]}]}`), 0},
		"pods that are null":        {fill(`{"pods":[`, "null", `]}`), 0},
		"empty volumes":             {fill(`{"pods":[{"volume":[`, "{}", `]}]}`), 0},
		"many other values":         {fill(`{"node":[`, "1", `],"pods":[{"volume":[`+report+`]}]}`), 1},
		"one claim repeatedly":      {fill(`{"pods":[{"volume":[`, report, `]}]}`), 1},
		"nested lists":              {`{"node":` + strings.Repeat("[", size), 0},
		"a long text":               {`{"node":"` + strings.Repeat("x", size) + `","pods":[{"volume":[` + report + `]}]}`, 0},
		"a long number":             {`{"node":1` + strings.Repeat("0", size) + `,"pods":[{"volume":[` + report + `]}]}`, 0},
		"a large volume":            {`{"pods":[{"volume":[{"x":"` + strings.Repeat("x", size) + `"},` + report + `]}]}`, 0},
		"much space":                {`{"pods":[{"volume":[` + strings.Repeat(" ", size) + report + `]}]}`, 0},
		"a text of ordinary length": {`{"node":"` + strings.Repeat("x", 32<<10) + `","pods":[{"volume":[` + report + `]}]}`, 1},
	} {
		usage := map[string]grow.Usage{}
		body := &heapMeter{Reader: strings.NewReader(row.body)}
		before := body.measure()
		_ = grow.ReadSummary(body, "shop", all, usage)
		if len(usage) != row.want {
			t.Errorf("%s: %d claims, want %d", name, len(usage), row.want)
		}
		if body.most > before+size {
			t.Errorf("%s: %d KiB beside a summary of %d KiB", name, (body.most-before)>>10, size>>10)
		}
	}
}

// TestReadSummaryMergesReportsOfClaims: it reads only the claims of the namespace.
func TestReadSummaryMergesReportsOfClaims(t *testing.T) {
	const body = `{"pods":[{"volume":[
	  {"time":"2026-03-01T12:00:00Z","availableBytes":10,"capacityBytes":100,"usedBytes":80,"inodesFree":5,"inodes":50,
	   "pvcRef":{"name":"data-web-0","namespace":"shop"}},
	  {"time":"2026-03-01T12:00:00Z","availableBytes":10,"capacityBytes":100,"pvcRef":{"name":"data-web-0","namespace":"other"}},
	  {"time":"2026-03-01T12:00:00Z","availableBytes":1,"capacityBytes":2},
	  {"time":"2026-03-01T12:00:00Z","capacityBytes":100,"pvcRef":{"name":"raw","namespace":"shop"}}]},
	 {"volume":[{"time":"2026-03-01T12:01:00Z","availableBytes":30,"capacityBytes":100,"usedBytes":60,"inodesFree":5,"inodes":50,
	   "pvcRef":{"name":"data-web-0","namespace":"shop"}},
	  {"time":"2026-03-01T12:01:00Z","availableBytes":30,"capacityBytes":100,"pvcRef":{"name":"shared","namespace":"shop"}},
	  {"time":"2026-03-01T12:01:00Z","availableBytes":30,"capacityBytes":200,"pvcRef":{"name":"shared","namespace":"shop"}},
	  {"time":"2026-03-01T12:01:00Z","availableBytes":30,"capacityBytes":100,"pvcRef":{"name":"shared","namespace":"shop"}}]}]}`
	usage := map[string]grow.Usage{}
	if err := grow.ReadSummary(strings.NewReader(body), "shop", all, usage); err != nil || len(usage) != 2 {
		t.Fatalf("%v, %v", usage, err)
	}
	want := grow.Usage{Capacity: 100, Free: 30, Used: 80, Inodes: 50, InodesFree: 5, MeasuredAt: build.Now}
	if u := usage["data-web-0"]; !u.MeasuredAt.Equal(want.MeasuredAt) || u.Free != want.Free || u.Used != want.Used ||
		u.Inodes != want.Inodes {
		t.Errorf("two pods: %+v, want %+v", u, want)
	}
	if u := usage["shared"]; u != (grow.Usage{}) {
		t.Errorf("contradictory reports: %+v", u)
	}
	one := map[string]grow.Usage{}
	err := grow.ReadSummary(strings.NewReader(body), "shop", func(claim string) bool { return claim == "shared" }, one)
	if _, ok := one["shared"]; err != nil || !ok || len(one) != 1 {
		t.Errorf("only claim shared is wanted: %v, %v", one, err)
	}
	for _, broken := range []string{"", "[]", body[:len(body)-2], body + "{}", `{"pods":[{"volume":[{"capacityBytes":"x"}]}]}`,
		`{"pods":[{"volume":[{"capacityBytes":1e99}]}]}`} {
		if err := grow.ReadSummary(strings.NewReader(broken), "shop", all, usage); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

func FuzzReadSummary(f *testing.F) {
	f.Add([]byte(`{"pods":[{"volume":[{"availableBytes":10,"capacityBytes":100,"pvcRef":{"name":"a","namespace":"shop"}}]}]}`))
	f.Fuzz(func(_ *testing.T, body []byte) {
		_ = grow.ReadSummary(bytes.NewReader(body), "shop", all, map[string]grow.Usage{})
	})
}

// TestEachSetIsMeasuredOncePerPeriod: the sets are spread over the minutes of the period.
func TestEachSetIsMeasuredOncePerPeriod(t *testing.T) {
	plan := grow.Schedule{Period: 5 * time.Minute, Default: func(string) bool { return false }}
	perMinute := map[int]int{}
	for i := range 200 {
		set := build.Set("web", build.Template("data", "1Gi", "roomy"), build.Annotation(api.GrowAnnotation, "data=max:2Gi"),
			build.UID(strings.Repeat("x", i)))
		measured := 0
		for minute := range 5 {
			// ticks are a little early or late
			now := build.Now.Add(time.Duration(minute)*time.Minute + time.Duration(minute-2)*time.Second)
			if len(plan.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true})) > 0 {
				measured++
				perMinute[minute]++
			}
		}
		if measured != 1 {
			t.Errorf("set %d is measured %d times in five minutes, want once", i, measured)
		}
	}
	for minute := range 5 {
		if perMinute[minute] < 15 {
			t.Errorf("minute %d: %d of 200 sets", minute, perMinute[minute])
		}
	}
}

// TestEachSetIsMeasuredWithAnyTickPeriod: DRYDOCK_TICK may be shorter or longer than a minute, and ticks may be lost.
func TestEachSetIsMeasuredWithAnyTickPeriod(t *testing.T) {
	for _, tick := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute} {
		for i := range 50 {
			set := build.Set("web", build.Template("data", "1Gi", "roomy"), build.Annotation(api.GrowAnnotation, "data=max:2Gi"),
				build.UID(strings.Repeat("x", i)))
			measured, since := 0, build.Now.Add(-tick)
			for now := build.Now; now.Before(build.Now.Add(time.Hour)); now = now.Add(tick) {
				plan := grow.Schedule{Period: 5 * time.Minute, Default: func(string) bool { return false }}
				change := operation.Change{Set: set, Records: operation.Of(set), Now: now, PreviousSweep: since, Swept: true}
				measured += len(plan.Concerned(change))
				since = now
			}
			if want := int(time.Hour / max(tick, 5*time.Minute)); measured != want {
				t.Errorf("a tick every %s: set %d is measured %d times in an hour, want %d", tick, i, measured, want)
			}
		}
	}
}

// TestOnlySetsWithRulesAreMeasured: only the sweep wakes grow-volumes.
func TestOnlySetsWithRulesAreMeasured(t *testing.T) {
	rule := build.Annotation(api.GrowAnnotation, "data=max:2Gi")
	warned := build.Annotation(api.GrowthAnnotation, (&api.Growth{Version: api.GrowthVersion, Set: build.Namespace + "/web",
		Warnings: []api.GrowthWarning{{Template: "data", Reason: api.GrowthLimit}}}).Encode())
	for says, row := range map[string]struct {
		options               []build.Option
		default_, event, want bool
	}{
		"its own rule": {options: []build.Option{rule}, want: true},
		"its own rule, and an event instead of a sweep": {options: []build.Option{rule}, event: true},
		"no rule":                         {},
		"a default rule of its namespace": {default_: true, want: true},
		"a default rule, and the set is excluded": {options: []build.Option{build.Annotation(api.GrowAnnotation,
			api.GrowOff)}, default_: true},
		"it has not opted in":            {options: []build.Option{rule, build.Label(api.ManagedLabel, "")}},
		"it is at zero":                  {options: []build.Option{rule, build.Replicas(0)}},
		"it is at zero, and has a floor": {options: []build.Option{rule, build.GrowTo("data=2Gi", ""), build.Replicas(0)}},
		"growth was turned off, and there is a floor": {options: []build.Option{build.Annotation(api.GrowAnnotation,
			api.GrowOff), build.GrowTo("data=2Gi", "")}, want: true},
		"the namespace has no default rule any more, and there is a floor": {options: []build.Option{build.GrowTo("data=2Gi", "")}, want: true},
		"growth was turned off, and there is a floor of an unknown writer": {
			options: []build.Option{build.Annotation(api.GrowToAnnotation, "data=2Gi")}, want: true},
		"it has opted out, and there is a floor": {
			options: []build.Option{build.GrowTo("data=2Gi", ""), build.Label(api.ManagedLabel, "")}},
		"growth was turned off, and a Warning is stored": {options: []build.Option{build.Annotation(api.GrowAnnotation,
			api.GrowOff), warned}, want: true},
		"it has opted out, and a Warning is stored": {options: []build.Option{warned, build.Label(api.ManagedLabel, "")}},
		"it is deleted":                    {options: []build.Option{rule, build.Deleting()}},
		"it is resized":                    {options: []build.Option{rule, build.Status(build.Operation(api.Expanding))}},
		"it sleeps":                        {options: []build.Option{rule, build.WithSleep(build.Sleep(api.Asleep))}},
		"its resize record cannot be read": {options: []build.Option{rule, build.Annotation(api.StatusAnnotation, "{")}},
	} {
		t.Run(says, func(t *testing.T) {
			set := build.Set("web", append([]build.Option{build.Template("data", "1Gi", "roomy")}, row.options...)...)
			plan := grow.Schedule{Period: time.Minute, Default: func(string) bool { return row.default_ }}
			got := plan.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: build.Now, Swept: !row.event})
			if (len(got) > 0) != row.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestOwnRulesReplaceRulesOfNamespace: the ConfigMap counts only for sets without their own rules.
func TestOwnRulesReplaceRulesOfNamespace(t *testing.T) {
	config := func(data map[string]string) *corev1.ConfigMap {
		c := &corev1.ConfigMap{Data: data}
		c.Name = api.GrowConfigMap
		return c
	}
	set := build.Set("web", build.Template("data", "1Gi", "roomy"))
	rules, err := grow.RulesOf(set, config(map[string]string{api.GrowKey: "*=max:7Gi;other=max:8Gi"}))
	if rule, ok := rules.For("data"); err != nil || !ok || rule.Max.String() != "7Gi" || len(rules.UnknownTemplates(set)) != 0 {
		t.Errorf("%+v, %v, unknown %v", rule, err, rules.UnknownTemplates(set))
	}
	if want := "key grow of ConfigMap " + build.Namespace + "/drydock-grow"; rules.Source != want {
		t.Errorf("messages name %q, want %q", rules.Source, want)
	}
	for says, data := range map[string]map[string]string{"no key": {}, "nonsense": {api.GrowKey: "lots"}} {
		if _, err := grow.RulesOf(set, config(data)); err == nil || !strings.Contains(err.Error(), api.GrowConfigMap) {
			t.Errorf("%s: %v", says, err)
		}
	}
	own := build.Set("web", build.Template("data", "1Gi", "roomy"), build.Annotation(api.GrowAnnotation, "data=max:2Gi;other=max:8Gi"))
	rules, err = grow.RulesOf(own, config(map[string]string{api.GrowKey: "nonsense"}))
	if rule, _ := rules.For("data"); err != nil || rule.Max.String() != "2Gi" || len(rules.UnknownTemplates(own)) != 1 {
		t.Errorf("%+v, %v, unknown %v", rule, err, rules.UnknownTemplates(own))
	}
}

package api_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestParseGrow reads valid rules and refuses invalid ones.
func TestParseGrow(t *testing.T) {
	rules, err := api.ParseGrow("data=below:15%,by:20Gi,max:500Gi,every:6h; logs=inodes:5%,below:2Gi,max:1.5Ti;*=max:10Gi")
	if err != nil || len(rules) != 3 {
		t.Fatalf("%v, %v", rules, err)
	}
	data, logs, others := rules["data"], rules["logs"], rules["*"]
	if data.Below.Percent != 15 || data.By.Bytes != 20<<30 || data.Every != 6*time.Hour || data.Inodes != 10 || data.Pause() != 6*time.Hour {
		t.Errorf("data: %+v", data)
	}
	if logs.Inodes != 5 || logs.Below.Bytes != 2<<30 || logs.By.Percent != 10 || logs.Max.Cmp(resource.MustParse("1536Gi")) != 0 {
		t.Errorf("logs: %+v", logs)
	}
	if others.Below.Percent != 10 || others.Every != 0 || others.Pause() != api.DefaultGrowPause {
		t.Errorf("*: %+v", others)
	}
	if rules, err := api.ParseGrow(" off "); err != nil || len(rules) != 0 {
		t.Errorf("off: %v, %v", rules, err)
	}
	for _, text := range []string{"", "data", "data=", "data=below:10%", "data=max:", "data=max:0", "data=max:-1Gi", "data=max:1e99999999",
		"data=max:1Gi,max:2Gi", "data=max:1Gi;data=max:2Gi", "Data=max:1Gi", "data=max:1Gi,below:0%", "data=max:1Gi,below:100%",
		"data=max:1Gi,below:1.5%",
		"data=max:1Gi,by:0", "data=max:1Gi,by:1001%", "data=max:1Gi,inodes:5", "data=max:1Gi,every:1s", "data=max:1Gi,every:9999999h",
		"data=max:1Gi,upto:2",
		"data=max:1Gi;", "data=max:1Gi,", "off;data=max:1Gi", strings.Repeat("x", 5000), strings.Repeat("a=max:1Gi;", 100)} {
		if rules, err := api.ParseGrow(text); err == nil || len(err.Error()) > 6000 {
			t.Errorf("%.80q: %v, %v", text, rules, err)
		}
	}
}

func FuzzParseGrow(f *testing.F) {
	f.Add("data=below:15%,by:20%,max:500Gi,every:6h;*=max:1Gi,inodes:1%")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := api.ParseGrow(text)
		if err != nil {
			return
		}
		for template, rule := range rules {
			if rule.Max.Sign() <= 0 || rule.Below.Of(1<<40) <= 0 || rule.By.Of(1<<40) <= 0 || rule.Inodes < 1 || rule.Pause() < time.Minute {
				t.Errorf("%q: %s: %+v", text, template, rule)
			}
		}
	})
}

// TestPercentageOfLargestVolumeDoesNotOverflow covers sizes near the end of int64.
func TestPercentageOfLargestVolumeDoesNotOverflow(t *testing.T) {
	for _, row := range []struct{ size, percent, want int64 }{{100, 15, 15}, {101, 10, 11}, {1 << 62, 99, (1<<62)/100*99 + 4}} {
		if got := (api.Amount{Percent: row.percent}).Of(row.size); got != row.want {
			t.Errorf("%d%% of %d: %d, want %d", row.percent, row.size, got, row.want)
		}
	}
}

// TestLoadGrowth: an unreliable document is an error, and a document of another set counts as absent.
func TestLoadGrowth(t *testing.T) {
	const good = `{"version":1,"set":"shop/web","asked":{"data":{"at":"2026-11-01T00:00:00Z","size":"1Gi","saw":"","over":""}}}`
	const warning = `{"reason":"x","message":""}`
	tooLong := `{"version":1,"set":"shop/web","told":[` + strings.Repeat(warning+",", 4000) + warning + `]}`
	for text, row := range map[string]struct{ loads, fails bool }{
		good:                               {loads: true},
		`{"version":1,"set":"shop/other"}`: {},
		`{"version":2,"set":"shop/web"}`:   {fails: true},
		`{`:                                {fails: true},
		``:                                 {fails: true},
		tooLong:                            {fails: true},
	} {
		set := build.Set("web", build.Annotation(api.GrowthAnnotation, text))
		growth, err := api.LoadGrowth(set)
		if (growth != nil) != row.loads || (err != nil) != row.fails {
			t.Errorf("%.60s: %v, %v", text, growth, err)
		}
	}
}

// TestParseGrowTo: floors are sizes of templates and nothing else. Every other text is an error, whoever wrote it.
func TestParseGrowTo(t *testing.T) {
	for text, want := range map[string]string{
		"data=15Gi":                     "data=15Gi",
		"logs=2Gi,data=1000":            "data=1k,logs=2Gi",
		"data=1e3":                      "data=1k",
		"":                              "",
		"auto":                          "",
		"data":                          "",
		"data=15Gi+":                    "",
		"data=15Gi@fast":                "",
		"data=15Gi%gold":                "",
		"data=15Gi:RWX":                 "",
		"serviceName=db":                "",
		"data=15Gi,serviceName=db":      "",
		"data=0":                        "",
		"data=-1Gi":                     "",
		"data=1Gi,data=2Gi":             "",
		"DATA=1Gi":                      "",
		strings.Repeat("a=1Gi,", 5<<10): "",
	} {
		floors, err := api.ParseGrowTo(text)
		if got := api.FormatGrowTo(floors); got != want || (err != nil) != (want == "") {
			t.Errorf("%.40q: %q, %v, want %q", text, got, err, want)
		}
	}
}

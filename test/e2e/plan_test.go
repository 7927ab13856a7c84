//go:build cluster

package e2e

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "drydock.dev/cmd/kubectl-drydock/command"
	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// planOf returns the output of kubectl drydock plan for the workload. A refusal is no error here.
func planOf(t *testing.T, s *stage.Stage, request string) *forecast.Document {
	t.Helper()
	var out, problems bytes.Buffer
	root := plugin.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &problems})
	root.SetArgs([]string{"plan", "sts/web", "--resize", request, "-o", "json", "--kubeconfig", s.Kubeconfig, "-n", s.Namespace})
	err := root.ExecuteContext(t.Context())
	d := &forecast.Document{}
	if json.Unmarshal(out.Bytes(), d) != nil {
		t.Fatalf("%v: %q %q", err, out.String(), problems.String())
	}
	if (err != nil) != (d.Verdict == forecast.Refused) {
		t.Fatalf("%s, %v", d.Verdict, err)
	}
	return d
}

// TestPlanKnowsUsage: the kubelet measures the usage. So the plan knows how much is copied, and that a smaller volume
// is too small. The resize keeps within the planned stop.
func TestPlanKnowsUsage(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("160Mi"))
	s.AwaitReady(t)
	const least, most = 36 << 20, 60 << 20 // there are 36 MiB of large files, and small ones
	const holes = 8 << 20                  // holes of the sparse file, which use no space
	var d *forecast.Document
	s.Patience = 3 * time.Minute
	s.Eventually("the kubelet has measured both volumes", func() string { // it measures once a minute
		d = planOf(t, s, "data=200Mi")
		if d.Copy.Unmeasured > 0 || d.Copy.Measured < 2*least {
			text, _ := json.Marshal(d)
			return string(text)
		}
		return ""
	})
	for _, c := range d.Claims {
		if *c.Used < least || *c.Used > most || c.Method != api.MethodCopy {
			t.Errorf("claim %s: %d bytes are used", c.Name, *c.Used)
		}
	}
	if d.Stop.None || !d.Stop.Together || d.Stop.To == 0 || len(d.Stop.Observed) != 1 {
		t.Errorf("stop %+v", d.Stop)
	}
	for _, m := range d.Members {
		if m.NoFirstPass != "" {
			t.Errorf("member %d: no first pass, because %s", m.Ordinal, m.NoFirstPass)
		}
	}
	if small := planOf(t, s, "data=20Mi"); small.Verdict != forecast.Refused || small.Refused[0].Reason != api.CopyFailed {
		t.Errorf("what does not fit is %s: %v", small.Verdict, small.Refused)
	}
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=200Mi"})
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded || len(status.Moves()) != len(d.Claims) {
		t.Fatalf("%s: %s", status.Phase, status.Message)
	}
	for i, m := range status.Moves() {
		if m.BytesTotal > *d.Claims[i].Used+holes {
			t.Errorf("claim %s: %d bytes were copied, %d were expected", m.Claim, m.BytesTotal, *d.Claims[i].Used)
		}
	}
	for _, m := range status.Members {
		t.Logf("member %d was stopped for %s, both were planned for %d s to %d s", m.Ordinal, m.ReadyAt.Sub(m.HeldAt.Time), d.Stop.From,
			d.Stop.To)
	}
	s.ExpectNothingLeft(t)
}

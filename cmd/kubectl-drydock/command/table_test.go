package command

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestOneThingIsSingular: "1 claims" looks like a mistake in the number.
func TestOneThingIsSingular(t *testing.T) {
	accepted := func(n int) []forecast.Check {
		var all []forecast.Check
		for range n {
			all = append(all, forecast.Check{Verb: plan.VerbPatch, Resource: plan.Claims, Outcome: forecast.Accepted})
		}
		return all
	}
	scaler := func(n int32) *v1alpha1.Scaler { return &v1alpha1.Scaler{Status: v1alpha1.ScalerStatus{Replicas: n}} }
	s := newInstalledCluster(t)
	s.Lists["statefulsets"] = []metav1.Object{build.Set("web")}
	out, err := s.run(t, "release", "--yes")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ got, want string }{
		{copyWords(forecast.Copy{Claims: 1, Unmeasured: 1 << 20}), "1 claim: at most 1 MiB, because the usage is not measured"},
		{copyWords(forecast.Copy{Claims: 2, Unmeasured: 1 << 20}), "2 claims: at most 1 MiB, because the usage is not measured"},
		{triedWords(accepted(1))[0], "the API server would accept 1 of 1 writes: 1 patch persistentvolumeclaim"},
		{triedWords(accepted(2))[0], "the API server would accept 2 of 2 writes: 2 patch persistentvolumeclaims"},
		{memberStopWords(&api.Resize{Members: make([]api.Member, 1)}), "1 member is stopped"},
		{memberStopWords(&api.Resize{Members: make([]api.Member, 2)}), "2 members are stopped together"},
		{scalerLine(scaler(1)), "1 replica"},
		{scalerLine(scaler(0)), "0 replicas"},
		{lastLine(out), "1 StatefulSet is released."},
	} {
		if row.got != row.want {
			t.Errorf("%q, want %q", row.got, row.want)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

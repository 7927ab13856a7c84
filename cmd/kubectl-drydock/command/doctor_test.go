package command

import (
	"bytes"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/test/golden"
)

func TestDoctorShowsWhatIsMissing(t *testing.T) {
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		found     examined
	}{
		{"both policies are installed", examined{"v1.36.0", "v1", present, present}},
		{"the API server offers no MutatingAdmissionPolicy", examined{"v1.33.1", "", absent, present}},
		{"config/overlays/apply is not installed", examined{"v1.36.0", "v1", absent, present}},
		{"the API server offers v1beta1, and nothing is installed", examined{"v1.35.4", "v1beta1", absent, absent}},
		{"the user may not read policies", examined{"v1.36.0", "v1", hidden, hidden}},
	} {
		var out bytes.Buffer
		tool := &tool{IOStreams: genericiooptions.IOStreams{Out: &out}}
		if err := tool.printFindings(diagnose(row.found)); err != nil {
			t.Fatal(err)
		}
		file.Entry(t, row.situation, out.String())
	}
}

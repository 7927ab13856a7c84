package command

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestDiagnosis(t *testing.T) {
	for name, row := range map[string]struct {
		found examined
		want  []string
	}{
		"everything": {examined{"v1.36.0", "v1", present, present},
			[]string{"Kubernetes v1.36.0", "taken as requests, by MutatingAdmissionPolicy drydock-templates (v1)", "policies           installed"}},
		"an older cluster": {examined{"v1.33.1", "", absent, present},
			[]string{"refused: this API server offers no MutatingAdmissionPolicy", "-> ask with the annotation drydock.dev/resize"}},
		"the policies are not installed": {examined{"v1.36.0", "v1", absent, present},
			[]string{"drydock-templates is not installed", "-> kubectl apply -k config/overlays/apply\n"}},
		"the beta": {examined{"v1.35.4", "v1beta1", absent, absent},
			[]string{"-> kubectl apply -k config/overlays/apply-v1beta1\n", "drydock-documents is not installed", "-> install Drydock"}},
		"no rights": {examined{"v1.36.0", "v1", hidden, hidden},
			[]string{"you may not read MutatingAdmissionPolicies", "you may not read ValidatingAdmissionPolicies", "-> ask an administrator"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tool := &tool{IOStreams: genericiooptions.IOStreams{Out: &out}}
			if err := tool.printFindings(diagnose(row.found)); err != nil {
				t.Fatal(err)
			}
			for _, want := range row.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, out.String())
				}
			}
		})
	}
}

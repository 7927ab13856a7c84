package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestPoliciesKnowDrydocksAccounts: whoever the policies let pass are the accounts that config/ and deploy/ make, and no others.
func TestPoliciesKnowDrydocksAccounts(t *testing.T) {
	namespace := documents[metav1.PartialObjectMetadata](t, "config/namespace/namespace.yaml")[0].Name
	passes := "!request.userInfo.username.startsWith('system:serviceaccount:" + namespace + ":')"
	messages := map[string]bool{}
	for _, file := range []string{"config/policy/frozen-sets.yaml", "config/policy/frozen-scales.yaml"} {
		policy := documents[admissionv1.ValidatingAdmissionPolicy](t, file)[0]
		if got := policy.Spec.MatchConditions[0].Expression; got != passes {
			t.Errorf("%s: %s, want %s", file, got, passes)
		}
		if *policy.Spec.FailurePolicy != admissionv1.Ignore {
			t.Errorf("%s: what goes wrong with the policy stops everybody's sets", file)
		}
		messages[policy.Spec.Validations[0].Message] = true
	}
	if len(messages) != 1 {
		t.Errorf("the policies say different things: %v", messages)
	}
	files, err := filepath.Glob(filepath.Join(kit.Root(t), "config", "policy", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fences := 0
	for _, path := range files {
		name := filepath.Join("config", "policy", filepath.Base(path))
		for _, policy := range documents[admissionv1.ValidatingAdmissionPolicy](t, name) {
			if policy.Kind != "ValidatingAdmissionPolicy" || !strings.HasPrefix(policy.Name, "drydock-fence-") {
				continue
			}
			fences++
			conditions := policy.Spec.MatchConditions
			if len(conditions) != 1 || "!"+conditions[0].Expression != passes || *policy.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s: fence %s limits others than Drydock's accounts, or lets them pass when it cannot judge", name, policy.Name)
			}
		}
	}
	if fences < 8 || namespace != api.HomeNamespace {
		t.Errorf("%d fences; namespace %s", fences, namespace)
	}
	for _, file := range []string{"config/accounts/accounts.yaml", "deploy/standalone/account.yaml"} {
		for _, object := range documents[metav1.PartialObjectMetadata](t, file) {
			if object.Kind == "ServiceAccount" && object.Namespace != namespace {
				t.Errorf("%s: account %s is in namespace %s", file, object.Name, object.Namespace)
			}
		}
	}
}

// TestPoliciesLookForTheLabelsThatAreWritten: a set is frozen by the keys in shared/api.
func TestPoliciesLookForTheLabelsThatAreWritten(t *testing.T) {
	condition := documents[admissionv1.ValidatingAdmissionPolicy](t, "config/policy/frozen-sets.yaml")[0].Spec.Validations[0].Expression
	selector := documents[admissionv1.ValidatingAdmissionPolicyBinding](t, "config/policy/frozen-scales.yaml")[1].Spec.ParamRef.Selector.MatchLabels
	if len(selector) != 2 {
		t.Errorf("the binding selects by %v", selector)
	}
	for _, key := range []string{api.FrozenLabel, api.ManagedLabel} {
		if !strings.Contains(condition, "[?'"+key+"'].orValue('') != 'true'") || selector[key] != "true" {
			t.Errorf("label %s is not looked for by %s and %v", key, condition, selector)
		}
	}
}

// documents are the objects in a file, all of them read as if they were of the same type.
func documents[T any](t *testing.T, file string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kit.Root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for _, document := range strings.Split(string(text), "\n---\n") {
		var object T
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, object)
	}
	return all
}

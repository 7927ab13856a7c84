package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// TestPoliciesKnowDrydocksAccounts: whoever the policies let pass are the accounts that config/ and deploy/ make, and no others.
// Invariants: I10.
func TestPoliciesKnowDrydocksAccounts(t *testing.T) {
	namespace := documents[metav1.PartialObjectMetadata](t, "config/namespace/namespace.yaml")[0].Name
	passes := "!request.userInfo.username.startsWith('system:serviceaccount:" + namespace + ":')"
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
	if fences < 9 || namespace != api.HomeNamespace {
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

// TestPoliciesAboutHeldMembersAgree: a write of the set and one of its scale are refused for the same reason, in the words of the record.
func TestPoliciesAboutHeldMembersAgree(t *testing.T) {
	of := func(file string) admissionv1.ValidatingAdmissionPolicySpec {
		return documents[admissionv1.ValidatingAdmissionPolicy](t, file)[0].Spec
	}
	sets, scales := of("config/policy/held-sets.yaml"), of("config/policy/held-scales.yaml")
	if sets.Validations[0].Message != scales.Validations[0].Message {
		t.Error("the policies say different things")
	}
	record := (&api.Resize{Header: api.Header{Phase: api.Moving}, Members: []api.Member{{Phase: api.MemberStopping}, {Phase: api.MemberFinalPass}, {Phase: api.MemberGrowing},
		{Phase: api.MemberSwapping}}}).Encode()
	undone := (&api.Resize{Header: api.Header{Phase: api.Reverting}}).Encode()
	for name, spec := range map[string]admissionv1.ValidatingAdmissionPolicySpec{"held-sets": sets, "held-scales": scales} {
		if *spec.FailurePolicy != admissionv1.Ignore {
			t.Errorf("%s: what goes wrong with the policy stops everybody's sets", name)
		}
		words := regexp.MustCompile(`'("phase":"[A-Za-z]+")'`).FindAllStringSubmatch(spec.Validations[0].Expression, -1)
		if len(words) != 6 {
			t.Errorf("%s: looks for %v", name, words)
		}
		for _, word := range words {
			if !strings.Contains(record+undone, word[1]) {
				t.Errorf("%s: looks for %s, which no record has", name, word[1])
			}
		}
	}
	selector := documents[admissionv1.ValidatingAdmissionPolicyBinding](t, "config/policy/held-scales.yaml")[1].Spec.ParamRef.Selector.MatchLabels
	if len(selector) != 1 || selector[api.ManagedLabel] != "true" {
		t.Errorf("the binding selects by %v", selector)
	}
}

// TestFencesKnowTheNamesThatAreMade: the fences know temporary claims, movers, locks and what movers are told by the names of shared/.
func TestFencesKnowTheNamesThatAreMade(t *testing.T) {
	const id = "0123456789ab"
	for file, names := range map[string][]string{
		"fence-claims.yaml":  {api.TargetName(id, "data-web-0", 3)},
		"fence-volumes.yaml": {api.TargetName(id, "data-web-0", 3)},
		"fence-jobs.yaml":    {api.TargetName(id, "data-web-0", 3), api.MoverName(id, 10, 2), api.HookName(id, "before", 10, 2), api.HookName(id, "after", 0, 0)},
		"fence-pods.yaml":    {api.MoverName(id, 10, 2)},
	} {
		text := string(readFile(t, "config", "policy", file))
		for _, name := range names {
			known := slices.ContainsFunc(regexp.MustCompile(`'(\^drydock-[^']+\$)'`).FindAllStringSubmatch(text, -1), func(match []string) bool {
				return regexp.MustCompile(match[1]).MatchString(name)
			})
			if !known {
				t.Errorf("%s does not know the name %s", file, name)
			}
		}
	}
	pods, links := string(readFile(t, "config", "policy", "fence-pods.yaml")), string(readFile(t, "config", "policy", "links.yaml"))
	for _, key := range []string{api.HoldFinalizer, api.CleanupFinalizer, api.OperationLabel, moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		if !strings.Contains(pods, "'"+key+"'") {
			t.Errorf("fence-pods.yaml does not know %s", key)
		}
	}
	for _, key := range []string{api.OperationLabel, moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		if !strings.Contains(links, "'"+key+"'") {
			t.Errorf("links.yaml does not protect %s", key)
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

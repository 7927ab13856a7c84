package arch

import (
	"os"
	"os/exec"
	"path"
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

// TestFencesLimitExactlyDrydocksAccounts: the fences apply to the accounts that config/ and deploy/ create, and to no others.
// Invariants: I10.
func TestFencesLimitExactlyDrydocksAccounts(t *testing.T) {
	namespace := documents[metav1.PartialObjectMetadata](t, "config/namespace/namespace.yaml")[0].Name
	otherUsers := "!request.userInfo.username.startsWith('system:serviceaccount:" + namespace + ":')"
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
			if len(conditions) != 1 || "!"+conditions[0].Expression != otherUsers || *policy.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s: fence %s must limit exactly Drydock's accounts, with failurePolicy Fail", name, policy.Name)
			}
		}
	}
	if fences < 9 || namespace != api.HomeNamespace {
		t.Errorf("%d fences, namespace %s", fences, namespace)
	}
	for _, file := range []string{"config/accounts/accounts.yaml", "deploy/standalone/account.yaml"} {
		for _, object := range documents[metav1.PartialObjectMetadata](t, file) {
			if object.Kind == "ServiceAccount" && object.Namespace != namespace {
				t.Errorf("%s: account %s is in namespace %s", file, object.Name, object.Namespace)
			}
		}
	}
}

// TestHeldPoliciesRefuseTheSameForSetsAndScales: a write to the set and a write to its scale are refused in the same phases, as the record
// spells them.
func TestHeldPoliciesRefuseTheSameForSetsAndScales(t *testing.T) {
	specOf := func(file string) admissionv1.ValidatingAdmissionPolicySpec {
		return documents[admissionv1.ValidatingAdmissionPolicy](t, file)[0].Spec
	}
	sets, scales := specOf("config/policy/held-sets.yaml"), specOf("config/policy/held-scales.yaml")
	if sets.Validations[0].Message != scales.Validations[0].Message {
		t.Error("the messages of the policies differ")
	}
	moving := (&api.Resize{Header: api.Header{Phase: api.Moving}, Members: []api.Member{{Phase: api.MemberStopping},
		{Phase: api.MemberFinalPass}, {Phase: api.MemberGrowing},
		{Phase: api.MemberSwapping}}}).Encode()
	reverting := (&api.Resize{Header: api.Header{Phase: api.Reverting}}).Encode()
	for name, spec := range map[string]admissionv1.ValidatingAdmissionPolicySpec{"held-sets": sets, "held-scales": scales} {
		if *spec.FailurePolicy != admissionv1.Ignore {
			t.Errorf("%s: an error in the policy must not refuse writes to other sets", name)
		}
		words := regexp.MustCompile(`'("phase":"[A-Za-z]+")'`).FindAllStringSubmatch(spec.Validations[0].Expression, -1)
		if len(words) != 6 {
			t.Errorf("%s: the policy compares %v, want 6 phases", name, words)
		}
		for _, word := range words {
			if !strings.Contains(moving+reverting, word[1]) {
				t.Errorf("%s: the policy compares %s, which no record contains", name, word[1])
			}
		}
	}
	selector := documents[admissionv1.ValidatingAdmissionPolicyBinding](t,
		"config/policy/held-scales.yaml")[1].Spec.ParamRef.Selector.MatchLabels
	if len(selector) != 1 || selector[api.ManagedLabel] != "true" {
		t.Errorf("the binding selects %v", selector)
	}
}

// TestFencesMatchTheNamesOfShared: the fences spell the names of temporary claims, movers and hooks, and the keys on pods, as shared/ does.
func TestFencesMatchTheNamesOfShared(t *testing.T) {
	const id = "0123456789ab"
	for file, names := range map[string][]string{
		"fence-claims.yaml":  {api.TargetName(id, "data-web-0", 3)},
		"fence-volumes.yaml": {api.TargetName(id, "data-web-0", 3)},
		"fence-jobs.yaml": {api.TargetName(id, "data-web-0", 3), api.MoverName(id, 10, 2), api.HookName(id, "before", 10, 2),
			api.HookName(id, "after", 0, 0)},
		"fence-pods.yaml": {api.MoverName(id, 10, 2)},
	} {
		text := string(readFile(t, "config", "policy", file))
		for _, name := range names {
			matches := slices.ContainsFunc(regexp.MustCompile(`'(\^drydock-[^']+\$)'`).FindAllStringSubmatch(text, -1), func(match []string) bool {
				return regexp.MustCompile(match[1]).MatchString(name)
			})
			if !matches {
				t.Errorf("%s does not match the name %s", file, name)
			}
		}
	}
	pods, links := string(readFile(t, "config", "policy", "fence-pods.yaml")), string(readFile(t, "config", "policy", "links.yaml"))
	for _, key := range []string{api.HoldFinalizer, api.CleanupFinalizer, api.OperationLabel, moverreport.SignalAnnotation,
		moverreport.LeaseAnnotation} {
		if !strings.Contains(pods, "'"+key+"'") {
			t.Errorf("fence-pods.yaml does not contain %s", key)
		}
	}
	for _, key := range []string{api.OperationLabel, moverreport.SignalAnnotation, moverreport.LeaseAnnotation} {
		if !strings.Contains(links, "'"+key+"'") {
			t.Errorf("links.yaml does not protect %s", key)
		}
	}
}

// documents returns the objects in a file, all decoded as the same type.
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

// TestHiddenFoldersAreNotEmbedded: deploy/apply writes its overlays to hidden folders beside the manifests. The pattern * matches these
// too, and then a compilation at that moment fails, or has a file that belongs to no release.
func TestHiddenFoldersAreNotEmbedded(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		for _, pattern := range p.EmbedPatterns {
			checked++
			first, _, _ := strings.Cut(pattern, "/")
			if hidden, err := path.Match(first, ".hidden"); err != nil || hidden {
				t.Errorf("%s embeds %s, which includes hidden folders (%v). Begin the pattern with [a-z]", p.ImportPath, pattern, err)
			}
		}
	}
	if checked == 0 {
		t.Error("go list found no pattern")
	}
}

// heavyPackages are the prefixes of packages that the functions must not link.
var heavyPackages = []string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/discovery", "knative.dev/"}

// TestFunctionsLinkNoHeavyPackages: a cold start delays a request. So the binary links no full clientset, no informers, no discovery and no
// Knative.
func TestFunctionsLinkNoHeavyPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "drydock.dev/cmd/drydock").Output()
	if err != nil {
		t.Fatalf("listing the packages of cmd/drydock: %v", err)
	}
	for _, linked := range strings.Fields(string(out)) {
		for _, heavy := range heavyPackages {
			if strings.HasPrefix(linked, heavy) && !strings.HasPrefix(linked, "k8s.io/client-go/kubernetes/scheme") {
				t.Errorf("cmd/drydock links %s", linked)
			}
		}
	}
}

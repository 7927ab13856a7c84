package arch

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit"
)

// TestDocsListEachKeyAsInputOrOwn: docs/security.md lists for each key whether users or Drydock write it.
func TestDocsListEachKeyAsInputOrOwn(t *testing.T) {
	page := string(readFile(t, "docs", "security.md"))
	_, section, found := strings.Cut(page, "## Annotations: input and Drydock's own")
	section, _, ends := strings.Cut(section, "Others may remove")
	if !found || !ends {
		t.Fatal("docs/security.md has no section about annotations")
	}
	keys := keysOfAPI(t)
	for key := range keys {
		if n := strings.Count(section, "`"+key+"`"); n != 1 {
			t.Errorf("key drydock.dev/%s is listed %d times under input and own, want 1", key, n)
		}
	}
	if len(keys) < 30 {
		t.Errorf("only %d keys were found", len(keys))
	}
}

// keysOfAPI returns the keys that shared/ declares, without the prefix: in package api, in the contract with the mover, and in the
// builders.
func keysOfAPI(t *testing.T) map[string]bool {
	t.Helper()
	constant, keys := regexp.MustCompile(`= (?:Prefix \+ "|api\.Prefix \+ "|"drydock\.dev/)([^"]+)"`), map[string]bool{}
	for _, folder := range []string{"api", "moverreport", "resources"} {
		files, err := filepath.Glob(filepath.Join(kit.Root(t), "shared", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, match := range constant.FindAllStringSubmatch(string(readFile(t, "shared", folder, filepath.Base(file))), -1) {
				keys[match[1]] = true
			}
		}
	}
	return keys
}

// TestDocsListEveryLabelOfTheManifests: docs/security.md says which rights the labels grant that only config/ and deploy/ use.
func TestDocsListEveryLabelOfTheManifests(t *testing.T) {
	_, section, _ := strings.Cut(string(readFile(t, "docs", "security.md")), "## Labels that open something")
	section, _, _ = strings.Cut(section, "\n## ")
	listed, known, found := func(key string) bool { return strings.Contains(section, "| `drydock.dev/"+key+"=") }, keysOfAPI(t), 0
	for _, key := range []string{"root-mover", "node-access", "pause-owners"} {
		if !listed(key) {
			t.Errorf("docs/security.md does not list the label drydock.dev/%s and its effect", key)
		}
	}
	for _, folder := range []string{"config", "deploy"} {
		err := filepath.WalkDir(filepath.Join(kit.Root(t), folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			// A key has no slash before it, a URL has.
			for _, match := range regexp.MustCompile(`(?m)(?:^|[^/])drydock\.dev/([a-z-]*[a-z])\b`).FindAllStringSubmatch(string(text), -1) {
				if known[match[1]] {
					continue
				}
				found++
				if !listed(match[1]) {
					t.Errorf("%s uses drydock.dev/%s. Add the label and its effect to docs/security.md", path, match[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 5 {
		t.Errorf("only %d labels were found", found)
	}
}

// TestFenceAllowsOnlyDrydocksKeys: the fence allows functions to write only keys of shared/api, and no input of users.
func TestFenceAllowsOnlyDrydocksKeys(t *testing.T) {
	keys := string(readFile(t, "shared", "api", "keys.go"))
	for function, list := range entriesOfFence(t, "writes", regexp.MustCompile(`'([a-z-]+)': \[([^]]*)\]`)) {
		for _, match := range regexp.MustCompile(`'drydock\.dev/([^']+)'`).FindAllStringSubmatch(list, -1) {
			if !strings.Contains(keys, `Prefix + "`+match[1]+`"`) {
				t.Errorf("the fence lets %s write drydock.dev/%s, which shared/api does not declare", function, match[1])
			}
		}
		for _, input := range []string{"cleanup-pod-template", "mover", "resize'", "owner-policy", "activity-probe"} {
			if strings.Contains(list, input) && function != "grow-volumes" { // another rule limits the requests of grow-volumes
				t.Errorf("the fence lets %s write %s, which is input of users", function, input)
			}
		}
	}
}

// TestFenceFollowsThePhases: the fence lets each function write the records that operation.MayWrite allows it, and no others.
func TestFenceFollowsThePhases(t *testing.T) {
	writes := entriesOfFence(t, "writes", regexp.MustCompile(`'([a-z-]+)': \[([^]]*)\]`))
	steps := entriesOfFence(t, "steps", regexp.MustCompile(`'([a-z-]+)': '([^']*)'`))
	records := map[api.Kind]string{api.KindResize: api.StatusAnnotation, api.KindRollback: api.StatusAnnotation,
		api.KindSleep: api.SleepAnnotation, api.KindCleanup: api.CleanupAnnotation, api.KindScale: api.ScaleAnnotation}
	for kind, key := range records {
		for _, name := range function.Names() {
			allows, writes := regexp.MustCompile("^("+cmp.Or(steps[name], "none")+")$"), strings.Contains(writes[name], "'"+key+"'")
			for _, former := range append([]api.Phase{""}, api.Phases[kind]...) {
				for _, next := range api.Phases[kind] {
					step := fmt.Sprintf("%s %s>%s", kind, former, next)
					if former == next {
						step = fmt.Sprintf("%s %s>=", kind, former)
					}
					want := operation.MayWrite(api.Function(name), kind, former, next)
					if got := writes && allows.MatchString(step); got != want {
						t.Errorf("%s: the fence allows %q: %t, want %t", name, step, got, want)
					}
				}
			}
		}
	}
}

// entriesOfFence returns the entries of a map in fence-sets.yaml.
func entriesOfFence(t *testing.T, name string, entry *regexp.Regexp) map[string]string {
	t.Helper()
	entries := map[string]string{}
	for _, variable := range documents[admissionv1.ValidatingAdmissionPolicy](t, "config/policy/fence-sets.yaml")[0].Spec.Variables {
		if variable.Name == name {
			text := regexp.MustCompile(`' \+\s+'`).ReplaceAllString(variable.Expression, "")
			for _, match := range entry.FindAllStringSubmatch(text, -1) {
				entries[match[1]] = match[2]
			}
		}
	}
	if len(entries) < 4 {
		t.Fatalf("fence-sets.yaml has %d entries in %s", len(entries), name)
	}
	return entries
}

func readFile(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{kit.Root(t)}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

package reference

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// keyOf matches the name of a key, but not the path of a Go package.
var keyOf = regexp.MustCompile(`^drydock\.dev/[a-z][a-z0-9-]*$`)

// sources calls do with the name and the text of each source file of the product in these folders, and in the root.
func sources(t *testing.T, extension string, folders []string, do func(name, text string)) {
	t.Helper()
	root := os.DirFS(kit.Root(t))
	visited := 0
	for _, folder := range folders {
		err := fs.WalkDir(root, folder, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (folder == "." && name != "." || entry.Name() == "testdata"):
				return fs.SkipDir
			case entry.IsDir() || path.Ext(name) != extension || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return fmt.Errorf("reading %s: %w", name, err)
			}
			visited++
			do(name, string(text))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if visited < 20 {
		t.Fatalf("only %d files %s were found in %v", visited, extension, folders)
	}
}

var goFolders = []string{".", "cmd", "eventsource", "functions", "shared"}

// keyConstants returns the constants of the product that are keys. A key constant has the prefix, or is in the file of keys and names an
// annotation.
func keyConstants(t *testing.T) []Constant {
	t.Helper()
	var found []Constant
	sources(t, ".go", goFolders, func(name, text string) {
		if !strings.Contains(text, "Prefix") && !strings.Contains(text, api.Prefix) {
			return
		}
		sections, err := Constants(name, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections {
			for _, c := range s.Constants {
				if keyOf.MatchString(c.Value) || name == "shared/api/keys.go" && strings.HasSuffix(c.Name, "Annotation") {
					found = append(found, c)
				}
			}
		}
	})
	return found
}

func topics(t *testing.T) []Topic {
	t.Helper()
	text, err := os.ReadFile("keys.yaml")
	if err != nil {
		t.Fatal(err)
	}
	topics, err := Topics(text)
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

// TestKeysOfManifestsAreDescribed finds keys that only manifests have.
func TestKeysOfManifestsAreDescribed(t *testing.T) {
	described := map[string]bool{api.Prefix + "v1alpha1": true} // the version of the Scaler's API
	for _, topic := range topics(t) {
		for _, k := range topic.Keys {
			described[k.String()] = true
		}
	}
	word := regexp.MustCompile(`(?m)(?:^|[^/])\b(drydock\.dev/[a-z][a-z0-9-]*[a-z0-9])`) // a URL has a slash before
	found := map[string]bool{}
	sources(t, ".yaml", []string{"config", "deploy"}, func(name, text string) {
		for _, match := range word.FindAllStringSubmatch(text, -1) {
			key := match[1]
			found[key] = true
			if !described[key] {
				t.Errorf("%s has the key %s. Describe it in test/reference/keys.yaml", name, key)
			}
		}
	})
	for _, key := range []string{"watch", "template-webhooks", "gateway-client", "metrics-client"} {
		if !found[api.Prefix+key] {
			t.Errorf("no manifest has the key %s", key)
		}
	}
}

// TestKeyConstantsAreFound names constants in several packages.
func TestKeyConstantsAreFound(t *testing.T) {
	meanings, err := KeyConstants(keyConstants(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"annotation drydock.dev/final-pass", "annotation drydock.dev/mover-lease",
		"annotation drydock.dev/owner-paused", "scheduling gate drydock.dev/lock", "label drydock.dev/owners", "label drydock.dev/operation",
		"annotation drydock.dev/operation",
		"annotation statefulsets.kubernetes.io/scaledown-pod-template"} {
		if meanings[id] == "" {
			t.Errorf("no constant for %s", id)
		}
	}
}

func TestKeyWithoutDescriptionIsAnError(t *testing.T) {
	full := Key{Name: "a", Kind: "label", On: "Pod", Format: "text", Written: "you", Read: "you", Removed: "never"}
	meanings := map[string]string{full.id(): "Means."}
	if page, err := KeysPage([]Topic{{Title: "T", Keys: []Key{full}}}, meanings); err != nil || !strings.Contains(page, "Means.") {
		t.Errorf("%q, %v", page, err)
	}
	vague := full
	vague.Format = ""
	for name, keys := range map[string][]Key{"a missing key": nil, "a key without a format": {vague}} {
		if _, err := KeysPage([]Topic{{Title: "T", Keys: keys}}, meanings); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := KeysPage([]Topic{{Title: "T", Keys: []Key{full}}}, nil); err == nil {
		t.Error("a key without a meaning is accepted")
	}
	if _, err := KeyConstants([]Constant{{Name: "Thing", Value: "drydock.dev/a"}}); err == nil {
		t.Error("a constant without a kind is accepted")
	}
}

// TestSettingsAreComplete finds every struct with the tag envconfig.
func TestSettingsAreComplete(t *testing.T) {
	page := settingsPage(t)
	variable := regexp.MustCompile(`envconfig:"([A-Z_]+)"`)
	count := 0
	sources(t, ".go", goFolders, func(name, text string) {
		for _, match := range variable.FindAllStringSubmatch(text, -1) {
			count++
			if !slices.ContainsFunc(programs, func(p Settings) bool { return filepath.ToSlash(p.Source) == name }) {
				t.Errorf("%s reads %s, but is not in the list programs", name, match[1])
			}
			if !strings.Contains(page, "`"+match[1]+"`") {
				t.Errorf("settings.md lacks %s of %s", match[1], name)
			}
		}
	})
	if count < 50 {
		t.Errorf("only %d settings were found", count)
	}
}

// TestStatusPageNamesEveryField: docs/status.md explains every field of the records, and no field that does not exist.
func TestStatusPageNamesEveryField(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(kit.Root(t), "docs", "status.md"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for _, document := range []any{api.Resize{}, api.Sleep{}, api.Stop{}, api.Cleanup{}, api.Ledger{}, api.Scale{}} {
		addFields(fields, reflect.TypeOf(document))
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`([a-zA-Z]+)").FindAllStringSubmatch(string(text), -1) {
		named[name[1]] = true
	}
	for name := range fields {
		if !named[name] {
			t.Errorf("docs/status.md does not explain the field %s", name)
		}
	}
	page, _, _ := strings.Cut(string(text), "\n## Growth by usage") // the records of other documents follow
	for _, table := range strings.Split(page, "| field | meaning |\n")[1:] {
		for row := range strings.SplitSeq(table, "\n") {
			if !strings.HasPrefix(row, "|") {
				break
			}
			for _, name := range regexp.MustCompile("`([a-zA-Z]+)(\\[\\])?`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				if !fields[name[1]] {
					t.Errorf("docs/status.md explains %s, which is no field", name[1])
				}
			}
		}
	}
}

// addFields adds the JSON names of the fields of a type, and of the types of package api in them.
func addFields(fields map[string]bool, of reflect.Type) {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		fields[name] = true
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == reflect.TypeFor[api.Sleep]().PkgPath() {
			addFields(fields, inner)
		}
	}
}

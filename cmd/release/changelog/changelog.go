// Package changelog finds the entry of a version in CHANGELOG.md.
package changelog

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// heading begins the entry of a version.
const heading = "\n## "

// Entry returns the entry of the version, with its heading. A pre-release, for example v1.2.0-rc.1, has the entry of v1.2.0.
func Entry(page, version string) (string, error) {
	final := strings.TrimSuffix(version, semver.Prerelease(version))
	for _, entry := range strings.Split("\n"+page, heading)[1:] {
		title, text, _ := strings.Cut(entry, "\n")
		if name, _, _ := strings.Cut(title, " "); name != final {
			continue
		}
		if text = strings.TrimSpace(text); text == "" {
			return "", fmt.Errorf("the entry of %s in CHANGELOG.md is empty. Describe what changes for users", final)
		}
		return "## " + version + "\n\n" + text + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no entry %s. Rename the heading Unreleased, or add an entry", final)
}

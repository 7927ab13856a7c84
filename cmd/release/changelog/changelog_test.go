package changelog

import (
	"strings"
	"testing"
)

const page = `# Changes

## Unreleased

## v1.1.0 (2026-11-26)
- Volumes shrink.

### Upgrade
Apply the policies first.

## v1.0.0
- Volumes grow.
`

func TestEntry(t *testing.T) {
	for name, row := range map[string]struct{ version, want, failure string }{
		"with a date in the heading": {"v1.1.0", "## v1.1.0\n\n- Volumes shrink.\n\n### Upgrade\nApply the policies first.\n", ""},
		"the last entry":             {"v1.0.0", "## v1.0.0\n\n- Volumes grow.\n", ""},
		"a pre-release":              {"v1.0.0-rc.1", "## v1.0.0-rc.1\n\n- Volumes grow.\n", ""},
		"a version without an entry": {"v1.2.0", "", "no entry v1.2.0"},
		"an entry without text":      {"Unreleased", "", "is empty"},
	} {
		got, err := Entry(page, row.version)
		if got != row.want || (err == nil) != (row.failure == "") || err != nil && !strings.Contains(err.Error(), row.failure) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

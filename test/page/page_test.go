package page

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fence = "```"

func TestSteps(t *testing.T) {
	for name, row := range map[string]struct {
		page    string
		want    []Step
		failure string
	}{
		"commands and output": {begin + "\n" + fence + "sh\nkubectl get sts\n" + fence + "\n\n" +
			fence + "text\nNAME\nweb\n" + fence + "\n" + end,
			[]Step{{2, "kubectl get sts", "NAME\nweb"}}, ""},
		"only the marked part": {fence + "sh\nrm -rf /\n" + fence + "\n" + begin + "\n" + fence + "sh\ntrue\n" + fence + "\n" + end,
			[]Step{{5, "true", ""}}, ""},
		"two parts, and hidden commands": {begin + "\n" + fence + "sh\na\n" + fence + "\n<!-- A test also runs: b | c -->\n" + end + "\n" +
			fence + "\nx\n" + fence + "\n" + begin + "\n" + fence + "sh\nd\n" + fence + "\n" + end,
			[]Step{{2, "a", ""}, {4, "b | c", ""}, {11, "d", ""}}, ""},
		"output first":       {begin + "\n" + fence + "text\nx\n" + fence + "\n" + end, nil, "output without commands"},
		"another language":   {begin + "\n" + fence + "yaml\nx: 1\n" + fence + "\n" + end, nil, `language "yaml"`},
		"no end":             {begin + "\n" + fence + "sh\ntrue\n" + fence, nil, "before"},
		"nothing is marked":  {fence + "sh\ntrue\n" + fence, nil, "has no commands"},
		"a block has no end": {begin + "\n" + fence + "sh\ntrue\n" + end, nil, "inside a block"},
		"output shown twice": {begin + "\n" + fence + "sh\na\n" + fence + "\n" + fence + "text\nb\n" + fence + "\n" +
			fence + "text\nc\n" + fence + "\n" + end, nil, "output"},
	} {
		got, err := Steps(row.page)
		if diff := cmp.Diff(row.want, got); diff != "" || (err == nil) != (row.failure == "") ||
			err != nil && !strings.Contains(err.Error(), row.failure) {
			t.Errorf("%s: error %v, want %q; -want +got\n%s", name, err, row.failure, diff)
		}
	}
}

func TestMissing(t *testing.T) {
	const got = "NAME    READY   AGE\nweb     1/1     7s\nother   0/1     2m\n"
	for name, row := range map[string]struct{ want, missing string }{
		"all lines":                {"NAME READY AGE\nweb 1/1 …\nother 0/1 2m", ""},
		"some lines, in order":     {"…\nother   0/1   …", ""},
		"a line has another value": {"web 0/1 …", "web 0/1 …"},
		"lines in another order":   {"other 0/1 2m\nweb 1/1 7s", "web 1/1 7s"},
		"a part of a line":         {"web", "web"},
	} {
		if missing := strings.Join(Missing(row.want, got), "\n"); missing != row.missing {
			t.Errorf("%s: missing %q, want %q", name, missing, row.missing)
		}
	}
}

package check

import (
	"regexp"
	"strings"

	"drydock.dev/shared/api"
)

// key matches a key of Drydock, also behind a backslash as jsonpath needs it. Longer names, as those of other domains, do not match.
var key = regexp.MustCompile(`(?:(?:^|[^A-Za-z0-9.])drydock\.dev|drydock\\\.dev)/([a-z][a-z0-9-]*)`)

// version matches the version of an API group, which is no key.
var version = regexp.MustCompile(`^v[0-9]`)

// checkKeys checks each key of Drydock in a line.
func checkKeys(c *checker, line int, text string) {
	for _, m := range key.FindAllStringSubmatch(text, -1) {
		name := strings.TrimSuffix(m[1], "-") // kubectl removes KEY-
		if _, known := c.project.keys[name]; !known && !version.MatchString(name) {
			c.report(line, "there is no key drydock.dev/%s in shared/api or in a manifest to install", name)
		}
	}
}

// checkKind checks that an argument of kubectl names a key of this kind, and its value if Drydock parses it.
func checkKind(c *checker, line int, argument, kind string) {
	written, value, _ := strings.Cut(argument, "=")
	name, isOurs := strings.CutPrefix(written, api.Prefix)
	if !isOurs {
		return
	}
	if kinds := c.project.keys[strings.TrimSuffix(name, "-")]; kinds != "" && !strings.Contains(kinds, kind) {
		c.report(line, "%s is no %s", written, strings.ToLower(kind))
		return
	}
	var err error
	switch {
	case strings.Contains(value, "…"):
	case written == api.ResizeAnnotation && value != "auto":
		_, err = api.ParseRequest(value)
	case written == api.GrowAnnotation:
		_, err = api.ParseGrow(value)
	}
	if err != nil {
		c.report(line, "%s: %v", argument, err)
	}
}

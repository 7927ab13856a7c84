package check

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// testFlags are the flags of go test that pages use. The value says whether the next word is the flag's value.
var testFlags = map[string]bool{"-tags": true, "-run": true, "-bench": true, "-benchtime": true, "-timeout": true, "-parallel": true,
	"-count": true, "-v": false, "-race": false, "-update": false, "-C": true}

// checkGo checks go test, go run and go build.
func checkGo(c *checker, line int, arguments []string) {
	if len(arguments) == 0 {
		return
	}
	verb, flags, rest := arguments[0], map[string]string{}, []string(nil)
	for i := 1; i < len(arguments); i++ {
		argument := arguments[i]
		name, value, isAssigned := strings.Cut(argument, "=")
		switch {
		case !strings.HasPrefix(argument, "-"):
			rest = append(rest, argument)
		case isAssigned:
			flags[name] = value
		case (testFlags[name] || name == "-o") && i+1 < len(arguments):
			i++
			flags[name] = arguments[i]
		default:
			flags[name] = ""
		}
	}
	folder := c.folder
	if flags["-C"] != "" {
		c.file(line, flags["-C"])
		c.folder = path.Join(folder, flags["-C"])
	}
	defer func() { c.folder = folder }()
	switch verb {
	case "test":
		checkGoTest(c, line, flags, rest)
	case "run", "build":
		for i, argument := range rest {
			if strings.HasPrefix(argument, "./") || i == 0 {
				c.file(line, strings.TrimSuffix(argument, "/..."))
			}
		}
		c.made[flags["-o"]] = true
	default:
		c.report(line, "go %s is not checked; add it to test/page/check", verb)
	}
}

// checkGoTest checks that the packages exist, that -run and -bench match a test of them, and that they define the flags.
func checkGoTest(c *checker, line int, flags map[string]string, packages []string) {
	if len(packages) == 0 {
		packages = []string{"."}
	}
	var names []string
	text := ""
	for _, name := range packages {
		folder := path.Join(c.folder, strings.TrimSuffix(name, "..."))
		if !c.project.exists(folder) {
			c.report(line, "there is no package %s", name)
			return
		}
		if strings.HasSuffix(name, "...") {
			return // go test checks the rest
		}
		tests, code, err := c.project.testsIn(folder, strings.Split(flags["-tags"], ","))
		if err != nil {
			c.report(line, "package %s: %v", name, err)
			return
		}
		names, text = append(names, tests...), text+code
	}
	checkMatch(c, line, flags, "-run", "Test", names)
	checkMatch(c, line, flags, "-bench", "Benchmark", names)
	for name := range flags {
		if _, known := testFlags[name]; !known && !strings.Contains(text, `"`+strings.TrimPrefix(name, "-")+`"`) {
			c.report(line, "the tests of %s have no flag %s", strings.Join(packages, " "), name)
		}
	}
}

// checkMatch checks that the expression of -run or -bench matches a test.
func checkMatch(c *checker, line int, flags map[string]string, flag, prefix string, names []string) {
	expression, _, _ := strings.Cut(flags[flag], "/")
	if expression == "" || flag == "-run" && expression == "^$" {
		return
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		c.report(line, "%s %s: %v", flag, expression, err)
		return
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) && compiled.MatchString(name) }) {
		c.report(line, "%s %s matches no test with these tags", flag, expression)
	}
}

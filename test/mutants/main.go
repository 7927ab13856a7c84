// Command mutants changes one condition of a package at a time, and runs the package's tests. A mutant that fails no test is
// undetected: it is a missing test, or code that does nothing. undetected.txt has their number for each package, which may only shrink.
//
//	go run ./test/mutants [-record] ./shared/window ./functions/restore
//
// The result must not depend on time or chance, so a package whose tests fail now and then cannot be measured.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const recordFile = "test/mutants/undetected.txt"

func main() {
	record := flag.Bool("record", false, "write smaller numbers, and those of new packages, to "+recordFile)
	flag.Parse()
	if err := run(flag.Args(), *record); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(patterns []string, record bool) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(recordFile)
	if err != nil {
		return err
	}
	allowed, err := parse(string(text))
	if err != nil {
		return err
	}
	targets, err := list(patterns...)
	if err != nil {
		return err
	}
	var wrong []string
	for _, p := range targets {
		name, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return err
		}
		total, missed, err := p.undetected()
		if err != nil { // the other packages can still be measured
			wrong = append(wrong, err.Error())
			continue
		}
		fmt.Printf("%s: %d of %d mutants undetected\n", name, len(missed), total)
		for _, m := range missed {
			fmt.Printf("  %s/%s\n", name, m)
		}
		before, known := allowed[name]
		if record && (!known || len(missed) < before) {
			allowed[name], before, known = len(missed), len(missed), true
			if err := os.WriteFile(recordFile, []byte(render(allowed)), 0o600); err != nil {
				return err
			}
		}
		if problem := judge(name, len(missed), before, known); problem != "" {
			wrong = append(wrong, problem)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// judge compares the undetected mutants of a package with the number in the file. It returns what to do, or an empty string.
func judge(name string, now, before int, known bool) string {
	switch {
	case !known:
		return fmt.Sprintf("%s has no number in %s. Write it with: make mutants PKG=./%s RECORD=1", name, recordFile, name)
	case now > before:
		return fmt.Sprintf("%s has %d undetected mutants, and %s allows %d. Test the new conditions, or remove conditions that do nothing",
			name, now, recordFile, before)
	case now < before:
		return fmt.Sprintf("%s has only %d undetected mutants, and %s says %d. Lower the number with: make mutants PKG=./%s RECORD=1", name, now,
			recordFile, before, name)
	}
	return ""
}

// parse reads the file. A line is a package and its number; a line that begins with # is a comment.
func parse(text string) (map[string]int, error) {
	all := map[string]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &n); err != nil || n < 0 {
			return nil, fmt.Errorf("%s: %q is no package with a number: %v", recordFile, line, err)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%s names %s twice", recordFile, name)
		}
		all[name] = n
	}
	return all, nil
}

func render(all map[string]int) string {
	text := header
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += fmt.Sprintf("%s %d\n", name, all[name])
	}
	return text
}

const header = `# The number of undetected mutants of each package, see test/mutants. A number may only shrink.
# A package that is not listed was not measured yet: make mutants PKG=./functions/x RECORD=1
`

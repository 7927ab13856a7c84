// Command mutants takes the guards of backup and restore away, one at a time, and runs the tests of their package on what is left, then the
// model. A guard is a condition of an if, or of a case. One whose absence no test finds has to be listed in redundant.txt with the reason.
//
//	go run ./test/model/mutants [-only 'hold.go stopping'] [-quick]
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// guarded are the files whose guards keep data, the most dangerous first.
var guarded = []string{
	"functions/restore/swap.go", "functions/restore/replace.go", "functions/restore/reserve.go", "functions/restore/hold.go",
	"functions/restore/giveback.go", "functions/restore/halfback.go", "functions/restore/member.go", "functions/restore/moving.go",
	"functions/restore/successor.go", "functions/restore/gate.go", "functions/restore/pin.go", "functions/restore/revert.go",
	"functions/restore/recreate.go", "functions/restore/own.go", "functions/restore/retire.go", "functions/restore/tidy.go",
	"functions/restore/check.go", "functions/restore/identity.go", "shared/statefulset/hold.go",
	"functions/backup/final.go", "functions/backup/copying.go", "functions/backup/mover.go", "functions/backup/decide.go",
	"functions/backup/target.go", "functions/backup/stall.go", "functions/backup/foreign.go",
}

const redundantFile = "test/model/mutants/redundant.txt"

func main() {
	only := flag.String("only", "", "take away the guards only whose name, which begins with the path, matches the expression")
	quick := flag.Bool("quick", false, "leave out the tests of the model that take minutes")
	flag.Parse()
	if err := judge(*only, *quick); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(only string, quick bool) error {
	chosen, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	guards, err := readGuards(guarded)
	if err != nil {
		return err
	}
	guards = slices.DeleteFunc(guards, func(g guard) bool { return !chosen.MatchString(g.name()) })
	reasons, err := readRedundant(redundantFile)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	found, err := tryAll(dir, guards, reasons, quick)
	if err != nil {
		return err
	}
	return report(guards, found, reasons, only)
}

// tryAll returns by what each guard was found, in their order.
func tryAll(dir string, guards []guard, reasons map[string]string, quick bool) ([]string, error) {
	suites, err := build(dir, guards, quick)
	if err != nil {
		return nil, err
	}
	found, problems := make([]string, len(guards)), make([]error, len(guards))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range next {
				g := guards[i]
				_, listed := reasons[g.name()]
				found[i], problems[i] = try(g, suites, listed)
				fmt.Fprintf(os.Stderr, "%d of %d: %s %s\n", i+1, len(guards), found[i], g.name())
			}
		})
	}
	for i := range guards {
		next <- i
	}
	close(next)
	workers.Wait()
	return found, errors.Join(problems...)
}

// try takes one guard away, and returns what finds it. What is listed as redundant is not looked for thoroughly.
func try(g guard, suites []suite, listed bool) (string, error) {
	for _, s := range suites {
		if !s.reached[g.number] || s.thorough && listed {
			continue
		}
		if passed, err := s.without(g); err != nil || !passed {
			return s.how, err
		}
	}
	return alive, nil
}

// report prints a line for each guard that no test finds, and the figures of each file. Whatever redundant.txt does not say of them is an
// error.
func report(guards []guard, found []string, reasons map[string]string, only string) error {
	var wrong []string
	figures, total := map[string]map[string]int{}, map[string]int{}
	for i, g := range guards {
		how := found[i]
		_, listed := reasons[g.name()]
		switch {
		case how == alive && listed:
			how = redundant
		case how == alive:
			wrong = append(wrong, fmt.Sprintf("ALIVE %s:%d\n\t%s", g.path, g.line, g.name()))
		case listed:
			wrong = append(wrong, fmt.Sprintf("listed as redundant, and found by %s: %s", how, g.name()))
		}
		delete(reasons, g.name())
		if figures[g.path] == nil {
			figures[g.path] = map[string]int{}
		}
		figures[g.path][how]++
		total[how]++
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if only == "" {
			wrong = append(wrong, "listed as redundant, and does not exist: "+name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(figures)) {
		fmt.Println(line(path, figures[path]))
	}
	fmt.Println(line(fmt.Sprintf("%d files", len(figures)), total))
	if len(wrong) > 0 {
		return fmt.Errorf("%s\n%d guards to find by a test, or to list in %s", strings.Join(wrong, "\n"), len(wrong), redundantFile)
	}
	return nil
}

func line(of string, n map[string]int) string {
	return fmt.Sprintf("%-34s %4d guards: %4d found by unit tests, %3d by the model, %3d redundant, %3d alive", of,
		n[byUnit]+n[byModel]+n[redundant]+n[alive], n[byUnit], n[byModel], n[redundant], n[alive])
}

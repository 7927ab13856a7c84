// Command mutants disables the guards of backup and restore, one at a time, and runs the tests of their package, then the model's tests.
// A guard is the condition of an if or of a case. If no test detects a disabled guard, redundant.txt must list the guard with a reason.
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

// guarded lists the files whose guards protect data, the most dangerous first.
var guarded = []string{
	"functions/restore/swap.go", "functions/restore/nextstep.go", "functions/restore/freenew.go", "functions/restore/replace.go",
	"functions/restore/reserve.go", "functions/restore/hold.go", "functions/restore/pods.go", "functions/restore/phase.go",
	"functions/restore/release.go", "functions/restore/partialrollback.go", "functions/restore/swapping.go",
	"functions/restore/starting.go", "functions/restore/moving.go", "functions/restore/stalehold.go", "functions/restore/successor.go",
	"functions/restore/fit.go", "functions/restore/volumerole.go", "functions/restore/gate.go", "functions/restore/stopblocker.go",
	"functions/restore/pin.go", "functions/restore/movers.go", "functions/restore/revert.go", "functions/restore/finishing.go",
	"functions/restore/transition.go", "functions/restore/recreate.go", "functions/restore/trust.go", "functions/restore/retire.go",
	"functions/restore/tidy.go", "functions/restore/check.go", "functions/restore/identity.go", "functions/restore/input.go",
	"shared/statefulset/hold.go",
	"functions/backup/final.go", "functions/backup/copying.go", "functions/backup/startmover.go", "functions/backup/mover.go",
	"functions/backup/moverpod.go", "functions/backup/lease.go", "functions/backup/decide.go", "functions/backup/recordcheck.go",
	"functions/backup/work.go", "functions/backup/target.go", "functions/backup/binding.go", "functions/backup/sources.go",
	"functions/backup/stall.go", "functions/backup/foreign.go",
}

const redundantFile = "test/model/mutants/redundant.txt"

// The results for a guard that no suite detects: with or without a line in redundantFile.
const (
	redundant  = "redundant"
	undetected = "UNDETECTED"
)

func main() {
	only := flag.String("only", "", "disable only guards whose name matches the `expression`; a name begins with the path")
	quick := flag.Bool("quick", false, "skip the model's tests that take minutes")
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

// tryAll returns the result for each guard, in the order of the guards.
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

// try disables one guard and returns the kind of test that detects it. For listed guards it skips the thorough tests.
func try(g guard, suites []suite, listed bool) (string, error) {
	for _, s := range suites {
		if !s.reached[g.number] || s.thorough && listed {
			continue
		}
		if passed, err := s.without(g); err != nil || !passed {
			return s.how, err
		}
	}
	return undetected, nil
}

// report prints the figures of each file. It returns an error with all undetected guards that redundant.txt does not list, and with all
// wrong entries of redundant.txt.
func report(guards []guard, found []string, reasons map[string]string, only string) error {
	var wrong []string
	figures, total := map[string]map[string]int{}, map[string]int{}
	for i, g := range guards {
		how := found[i]
		_, listed := reasons[g.name()]
		switch {
		case how == undetected && listed:
			how = redundant
		case how == undetected:
			wrong = append(wrong, fmt.Sprintf("UNDETECTED %s:%d\n\t%s", g.path, g.line, g.name()))
		case listed:
			wrong = append(wrong, fmt.Sprintf("%s is listed as redundant, but its absence is detected by %s", g.name(), how))
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
			wrong = append(wrong, name+" is listed as redundant, but does not exist")
		}
	}
	for _, path := range slices.Sorted(maps.Keys(figures)) {
		fmt.Println(line(path, figures[path]))
	}
	fmt.Println(line(fmt.Sprintf("%d files", len(figures)), total))
	if len(wrong) > 0 {
		return fmt.Errorf("%s\n%d problems. Add a test for each undetected guard, or list it in %s with a reason",
			strings.Join(wrong, "\n"), len(wrong), redundantFile)
	}
	return nil
}

func line(of string, n map[string]int) string {
	return fmt.Sprintf("%-34s %4d guards: %4d detected by unit tests, %3d by the model, %3d redundant, %3d undetected", of,
		n[byUnit]+n[byModel]+n[redundant]+n[undetected], n[byUnit], n[byModel], n[redundant], n[undetected])
}

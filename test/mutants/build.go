package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of suites. The report counts the detected guards by kind.
const (
	byUnit  = "unit tests"
	byModel = "model"
)

// suite is a test binary that can disable each guard by its number.
type suite struct {
	how            string // the kind of test, for the report
	binary, folder string // the test binary, and its working directory
	run            string // a pattern for the tests; empty runs all
	longest        time.Duration
	thorough       bool         // takes minutes
	reached        map[int]bool // guards that become true in a run; the suite cannot detect the loss of the others
}

// Patterns for the model's tests: the quick ones take seconds, the thorough ones minutes.
const (
	quickly    = "Fair|Stories|OneDisturbance|Recorded"
	thoroughly = "EveryInterleaving|RandomWalks"
)

// suites returns the suites that must detect a missing guard, in the order of execution.
func suites(dir string) []suite {
	var all []suite
	for _, folder := range []string{"functions/restore", "functions/backup", "shared/statefulset", "shared/world"} {
		all = append(all, suite{how: byUnit, folder: folder, longest: 2 * time.Minute})
	}
	all = append(all, suite{how: byModel, folder: "test/model", run: quickly, longest: 10 * time.Minute},
		suite{how: byModel, folder: "test/model", run: thoroughly, longest: 20 * time.Minute, thorough: true})
	for i := range all {
		all[i].binary = filepath.Join(dir, strings.ReplaceAll(all[i].folder, "/", "-")+".test")
	}
	return all
}

// build compiles the suites with a switch at every guard. Each package is compiled only once, so that a mutant costs
// no more than a test run.
func build(dir string, guards []guard, quick bool) ([]suite, error) {
	overlay, err := overlayOf(dir, guards)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(suites(dir), func(s suite) bool { return quick && s.thorough })
	for i, s := range all {
		command := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", s.binary, "./"+s.folder) // our packages
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", s.folder, err, out)
		}
		if all[i].reached, err = s.reaches(dir); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// overlayOf writes the packages with their switches to the folder. It returns the overlay file that makes Go compile them.
func overlayOf(dir string, guards []guard) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	instead, added := map[string]string{}, 0
	put := func(path string, source []byte) error {
		added++
		file := filepath.Join(dir, fmt.Sprintf("%d.go", added))
		instead[filepath.Join(here, path)] = file
		return os.WriteFile(file, source, 0o600)
	}
	byPath := map[string][]guard{}
	for _, g := range guards {
		byPath[g.path] = append(byPath[g.path], g)
	}
	for path, guards := range byPath {
		source, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if err := put(path, withSwitches(source, guards)); err != nil {
			return "", err
		}
	}
	for path := range byPath {
		folder := filepath.Dir(path)
		source := fmt.Sprintf(switchSource, filepath.Base(folder), guards[len(guards)-1].number+1)
		if err := put(filepath.Join(folder, "mutant_guard.go"), []byte(source)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": instead})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// passes runs the suite and reports whether it passed.
func (s suite) passes(env ...string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.longest)
	defer cancel()
	command := exec.CommandContext(ctx, s.binary, "-test.failfast", "-test.run", s.run) // built above
	command.Dir, command.Env = s.folder, append(os.Environ(), env...)
	err := command.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return false, nil // a failure, a panic or a timeout
	}
	return err == nil, err
}

// reaches returns the guards that become true in a run of the suite.
func (s suite) reaches(dir string) (map[int]bool, error) {
	log := filepath.Join(dir, fmt.Sprintf("reached-%s-%t", filepath.Base(s.binary), s.thorough))
	if passed, err := s.passes("DRYDOCK_MUTANT_LOG=" + log); err != nil || !passed {
		return nil, fmt.Errorf("the tests of %s fail with all guards enabled: %w", s.folder, err)
	}
	text, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	reached := map[int]bool{}
	for _, line := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		reached[n] = true
	}
	return reached, nil
}

func (s suite) without(g guard) (bool, error) {
	return s.passes(fmt.Sprintf("DRYDOCK_MUTANT=%d", g.number))
}

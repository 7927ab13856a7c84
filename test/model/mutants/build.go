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

// suite is a test binary in which each guard can be taken away by its number.
type suite struct {
	how            string // what finds it
	binary, folder string // folder: where it runs
	run            string // the tests; empty: all
	longest        time.Duration
	thorough       bool         // it takes minutes
	reached        map[int]bool // guards that are true at some moment of it; the others it cannot miss
}

// The tests of the model: the quick ones take seconds, the thorough ones minutes.
const (
	quickly    = "Fair|Stories|OneDisturbance|Recorded"
	thoroughly = "EveryInterleaving|RandomWalks"
)

// suites are what is to find that a guard is missing, in this order.
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

// build compiles the suites. It compiles each package once, with a switch at every guard, so that a mutant costs no more than a run.
func build(dir string, guards []guard, quick bool) ([]suite, error) {
	overlay, err := overlayOf(dir, guards)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(suites(dir), func(s suite) bool { return quick && s.thorough })
	for i, s := range all {
		if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", s.binary, "./"+s.folder).CombinedOutput(); err != nil { //nolint:gosec // our packages
			return nil, fmt.Errorf("building the tests of %s: %w\n%s", s.folder, err, out)
		}
		if all[i].reached, err = s.reaches(dir); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// overlayOf writes the packages with their switches to the folder, and returns the file that has Go read them instead.
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

// passes runs the suite.
func (s suite) passes(env ...string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.longest)
	defer cancel()
	command := exec.CommandContext(ctx, s.binary, "-test.failfast", "-test.run", s.run) //nolint:gosec // built above
	command.Dir, command.Env = s.folder, append(os.Environ(), env...)
	err := command.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return false, nil // a failure, a panic, or it did not end
	}
	return err == nil, err
}

// reaches returns the guards that are true at some moment of the suite.
func (s suite) reaches(dir string) (map[int]bool, error) {
	log := filepath.Join(dir, fmt.Sprintf("reached-%s-%t", filepath.Base(s.binary), s.thorough))
	if passed, err := s.passes("DRYDOCK_MUTANT_LOG=" + log); err != nil || !passed {
		return nil, fmt.Errorf("the tests of %s fail with every guard in its place: %w", s.folder, err)
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

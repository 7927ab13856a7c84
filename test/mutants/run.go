package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// suite is the test binary of a package, with a switch at every mutant.
type suite struct {
	binary, folder string
	// A run that needs more CPU time has found the mutant, and so has one that takes much longer: it waits for ever. A loaded machine
	// makes runs longer, and needs hardly more CPU time for them.
	cpu, longest time.Duration
}

// target is a package as go list prints it.
type target struct {
	Dir, Name            string
	GoFiles, TestGoFiles []string
	XTestGoFiles         []string
}

// list returns the packages that match the patterns and have tests.
func list(patterns ...string) ([]target, error) {
	out, err := exec.Command("go", append([]string{"list", "-json=Dir,Name,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var all []target
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p target
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// find returns the mutants of the package.
func (p target) find() (all []mutant, sources map[string][]byte, err error) {
	sources = map[string][]byte{}
	for _, name := range p.GoFiles {
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, nil, err
		}
		found, err := mutantsOf(name, source, len(all)+1)
		if err != nil {
			return nil, nil, err
		}
		sources[name], all = source, append(all, found...)
	}
	return all, sources, nil
}

// undetected returns the number of mutants, and the mutants that no test of the package detects.
func (p target) undetected() (total int, missed []mutant, err error) {
	mutants, sources, err := p.find()
	if err != nil || len(mutants) == 0 {
		return 0, nil, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(dir)
	s, err := p.build(dir, mutants, sources)
	if err != nil {
		return 0, nil, err
	}
	reached, err := s.reaches(dir)
	if err != nil {
		return 0, nil, err
	}
	passed, problems := make([]bool, len(mutants)), make([]error, len(mutants))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range next {
				passed[i], problems[i] = s.passes(fmt.Sprintf("DRYDOCK_MUTANT=%d", mutants[i].number))
			}
		})
	}
	for i, m := range mutants {
		if passed[i] = !reached[m.number]; !passed[i] {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	for i, m := range mutants {
		if passed[i] {
			missed = append(missed, m)
		}
	}
	return len(mutants), missed, errors.Join(problems...)
}

// build compiles the tests of the package once for all mutants, so that a mutant costs no more than a run.
func (p target) build(dir string, mutants []mutant, sources map[string][]byte) (suite, error) {
	instead := map[string]string{}
	put := func(name string, source []byte) error {
		file := filepath.Join(dir, name)
		instead[filepath.Join(p.Dir, name)] = file
		return os.WriteFile(file, source, 0o600)
	}
	byFile := map[string][]mutant{}
	for _, m := range mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for name, of := range byFile {
		if err := put(name, withSwitches(sources[name], of)); err != nil {
			return suite{}, err
		}
	}
	if err := put("mutant_switch.go", fmt.Appendf(nil, switchSource, p.Name, len(mutants)+1)); err != nil {
		return suite{}, err
	}
	text, err := json.Marshal(map[string]any{"Replace": instead})
	if err != nil {
		return suite{}, err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return suite{}, err
	}
	s := suite{binary: filepath.Join(dir, "package.test"), folder: p.Dir, cpu: 10 * time.Minute, longest: 10 * time.Minute}
	command := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, ".")
	command.Dir = p.Dir
	if out, err := command.CombinedOutput(); err != nil {
		return suite{}, fmt.Errorf("building the tests of %s: %w\n%s", p.Dir, err, out)
	}
	began := time.Now()
	switch passed, used, err := s.run(); {
	case err != nil:
		return suite{}, err
	case !passed:
		return suite{}, fmt.Errorf("the tests of %s fail without a mutant; mend them first", p.Dir)
	default:
		s.cpu, s.longest = 5*time.Second+3*used, time.Minute+10*time.Since(began)
	}
	return s, nil
}

// passes runs the suite and reports whether it passed.
func (s suite) passes(env ...string) (bool, error) {
	passed, _, err := s.run(env...)
	return passed, err
}

// run runs the suite, and returns whether it passed and how much CPU time it used.
func (s suite) run(env ...string) (passed bool, used time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.longest)
	defer cancel()
	limited := fmt.Sprintf(`ulimit -t %d && exec "$0" -test.failfast`, int(s.cpu.Seconds()))
	command := exec.CommandContext(ctx, "sh", "-c", limited, s.binary)
	command.Dir, command.Env = s.folder, append(os.Environ(), env...)
	err = command.Run()
	if state := command.ProcessState; state != nil {
		used = state.UserTime() + state.SystemTime()
	}
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return false, used, nil // a failure, a panic or a timeout
	}
	return err == nil, used, err
}

// reaches returns the mutants that change a value in a run of the suite. The tests cannot detect the others.
func (s suite) reaches(dir string) (map[int]bool, error) {
	log := filepath.Join(dir, "reached")
	if passed, err := s.passes("DRYDOCK_MUTANT_LOG=" + log); err != nil || !passed {
		return nil, fmt.Errorf("the tests of %s fail without a mutant: %w", s.folder, err)
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

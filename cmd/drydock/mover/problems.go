//go:build linux

package mover

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// shown is how many problems of a kind are named; the others are counted.
const shown = 5

// problems collects the faults that do not end the run at once. Its zero value is ready; it may be used concurrently.
type problems struct {
	live bool // the source is being written to: that something changed is no problem

	mu    sync.Mutex
	count [kinds]int
	first [kinds][]string

	changed int64 // let pass

	warnings []string
	omitted  map[string]*omission // by what was left out

	selinuxCause func(*fault) string // see copier; may be nil
	selinux      string              // the context of this process, if SELinux is the cause of a fault
}

// tolerate returns nil for an error that is collected, and any other error as it is.
func (p *problems) tolerate(err error) error {
	if err == nil {
		return nil
	}
	k := kindOf(err)
	if p.live && (k == kindChanged || isStale(err)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed++
		return nil
	}
	if !k.collected() {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[k]++
	if f := (*fault)(nil); k == kindDenied && p.selinux == "" && p.selinuxCause != nil && errors.As(err, &f) {
		p.selinux = p.selinuxCause(f)
	}
	if len(p.first[k]) < shown {
		p.first[k] = append(p.first[k], err.Error())
	}
	return nil
}

// warn keeps a sentence for the report, once.
func (p *problems) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.warnings, text) {
		p.warnings = append(p.warnings, text)
	}
}

// omission counts entries of which the same is left out.
type omission struct {
	count int
	first string // a path
}

// omit notes what is left out of the copy of an entry, for a warning.
func (p *problems) omit(what, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.omitted == nil {
		p.omitted = map[string]*omission{}
	}
	o := p.omitted[what]
	if o == nil {
		o = &omission{first: path}
		p.omitted[what] = o
	}
	o.count++
	o.first = min(o.first, path)
}

// allWarnings returns the warnings, and one for each kind of omission.
func (p *problems) allWarnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Clone(p.warnings)
	for _, what := range slices.Sorted(maps.Keys(p.omitted)) {
		o := p.omitted[what]
		all = append(all, fmt.Sprintf("%s of %s is not copied, the first is %s", what, countOf(o.count), quote(o.first)))
	}
	return all
}

// isStale says whether a network's file system lost a file of the source: somebody deleted it.
func isStale(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.side == source && errors.Is(err, unix.ESTALE)
}

// err is nil if nothing was collected. A changed source comes first, since everything else may follow from it.
func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range []kind{kindChanged, kindDenied, kindDiffers} {
		if p.count[k] > 0 {
			e := newError(k, p.count[k], p.first[k])
			if k == kindDenied && p.selinux != "" {
				blameSELinux(e, p.selinux)
			}
			return e
		}
	}
	return nil
}

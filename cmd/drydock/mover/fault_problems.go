//go:build linux

package mover

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// maxShown is how many problems of a kind are listed. The others are only counted.
const maxShown = 5

// problems collects the errors that do not end the run at once. Its zero value is ready. It may be used concurrently.
type problems struct {
	sourceActive bool // the source is in use: changes in it are no problem

	mu    sync.Mutex
	count [kinds]int
	first [kinds][]string

	changed int64 // changes that were tolerated

	warnings []string
	omitted  map[omissionKind]*omission

	selinuxCause func(*fault) string // see copier.selinuxCause; may be nil
	selinux      string              // the context of this process if SELinux caused a fault, else ""
}

// collect returns nil for an error that it collects, and any other error unchanged.
func (p *problems) collect(err error) error {
	if err == nil {
		return nil
	}
	k := kindOf(err)
	if p.sourceActive && (k == kindChanged || isStale(err)) {
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
	if len(p.first[k]) < maxShown {
		p.first[k] = append(p.first[k], err.Error())
	}
	return nil
}

// warn adds a sentence to the report, once.
func (p *problems) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.warnings, text) {
		p.warnings = append(p.warnings, text)
	}
}

// omit records a difference that does not fail the copy. All differences of a kind become one warning.
func (p *problems) omit(what, outcome, path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.omitted == nil {
		p.omitted = map[omissionKind]*omission{}
	}
	key := omissionKind{what, outcome}
	o := p.omitted[key]
	if o == nil {
		o = &omission{first: path}
		p.omitted[key] = o
	}
	o.count++
	o.first = min(o.first, path)
}

// allWarnings returns the warnings, followed by one for each kind of omission.
func (p *problems) allWarnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var omissions []string
	for k, o := range p.omitted {
		omissions = append(omissions, fmt.Sprintf("%s of %s %s. First: %s", k.what, countOf(o.count), k.outcome, quote(o.first)))
	}
	slices.Sort(omissions)
	return append(slices.Clone(p.warnings), omissions...)
}

// err returns nil if nothing was collected. Changes of the source take precedence, because other problems may follow
// from them.
func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range []kind{kindChanged, kindDenied, kindDiffers} {
		if p.count[k] > 0 {
			e := newError(k, p.count[k], p.first[k])
			if k == kindDenied && p.selinux != "" {
				adviseSELinux(e, p.selinux)
			}
			return e
		}
	}
	return nil
}

// omissionKind says in what the copies of some entries differ from the source.
type omissionKind struct{ what, outcome string }

// Outcomes of an omissionKind.
const (
	notCopied  = "is not copied"
	notRemoved = "cannot be removed from the copy"
)

// omission counts the entries with such a difference.
type omission struct {
	count int
	first string // a path
}

//go:build linux

package fault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// MaxShown is how many problems of a kind are listed. The others are only counted.
const MaxShown = 5

// Problems collects the errors that do not end the run at once. Its zero value is ready. It may be used concurrently.
type Problems struct {
	SourceActive bool // the source is in use: changes in it are no problem

	mu    sync.Mutex
	count [kinds]int
	first [kinds][]string

	Changed int64 // changes that were tolerated

	warnings []string
	omitted  map[omissionKind]*omission

	SelinuxCause func(*Fault) string // the SELinux context that may be the cause of a fault, or ""; may be nil
	selinux      string              // the context of this process if SELinux caused a fault, else ""
}

// Collect returns nil for an error that it collects, and any other error unchanged.
func (p *Problems) Collect(err error) error {
	if err == nil {
		return nil
	}
	k := KindOf(err)
	if p.SourceActive && (k == KindChanged || IsStale(err)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.Changed++
		return nil
	}
	if !k.collected() {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[k]++
	if f := (*Fault)(nil); k == KindDenied && p.selinux == "" && p.SelinuxCause != nil && errors.As(err, &f) {
		p.selinux = p.SelinuxCause(f)
	}
	if len(p.first[k]) < MaxShown {
		p.first[k] = append(p.first[k], err.Error())
	}
	return nil
}

// Warn adds a sentence to the report, once.
func (p *Problems) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.warnings, text) {
		p.warnings = append(p.warnings, text)
	}
}

// Omit records a difference that does not fail the copy. All differences of a kind become one warning.
func (p *Problems) Omit(what, outcome, path string) {
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

// AllWarnings returns the warnings, followed by one for each kind of omission.
func (p *Problems) AllWarnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var omissions []string
	for k, o := range p.omitted {
		omissions = append(omissions, fmt.Sprintf("%s of %s %s. First: %s", k.what, CountOf(o.count), k.outcome, Quote(o.first)))
	}
	slices.Sort(omissions)
	return append(slices.Clone(p.warnings), omissions...)
}

// Err returns nil if nothing was collected. Changes of the source take precedence, because other problems may follow
// from them.
func (p *Problems) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range []Kind{KindChanged, KindDenied, KindDiffers} {
		if p.count[k] > 0 {
			e := newError(k, p.count[k], p.first[k])
			if k == KindDenied && p.selinux != "" {
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
	NotCopied  = "is not copied"
	NotRemoved = "cannot be removed from the copy"
)

// omission counts the entries with such a difference.
type omission struct {
	count int
	first string // a path
}

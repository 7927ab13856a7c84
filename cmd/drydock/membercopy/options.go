//go:build linux

package membercopy

import (
	"path/filepath"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// Options name the claims and say how to copy them. If Settled, Idle, Lease or Poll is zero, it has its default.
type Options struct {
	Claims           []moverreport.Claim
	Sources, Targets string         // directories that have a directory or a device for each claim
	Token, Member    string         // see mover.Options
	Mount            string         // see mover.Options
	Refill           bool           // see mover.Options
	MaxStop          time.Duration  // the passes have converged when the forecast of the final pass is at most this
	Limit            *mover.Limiter // bandwidth limit of the first passes
	Workers          int
	Settled          time.Duration // see mover.Options
	Idle             time.Duration // pause between two passes

	Progress         func(moverreport.Progress) // may be nil
	ProgressInterval time.Duration

	// Final and Pin use these options.
	Annotations string        // the file with the pod's annotations
	Lease       time.Duration // the lease is lost if it is not renewed for this time
	Poll        time.Duration // pause between two reads of the file
	Warn        func(string)  // Final calls it if annotations cannot be read; may be nil
}

// Defaults of the options.
const (
	DefaultIdle = 20 * time.Second
	DefaultPoll = 100 * time.Millisecond
)

// withDefaults returns the options with defaults for the durations that have one, and for Warn.
func (o Options) withDefaults() Options {
	for _, d := range []struct {
		option *time.Duration
		value  time.Duration
	}{
		{&o.Settled, mover.DefaultSettled}, {&o.Idle, DefaultIdle}, {&o.Poll, DefaultPoll}, {&o.Lease, moverreport.DefaultLease},
	} {
		if *d.option <= 0 {
			*d.option = d.value
		}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return o
}

// forClaim returns the mover's options for a pass over one claim. Only first passes have a bandwidth limit.
func (o Options) forClaim(c moverreport.Claim, pass mover.Pass) mover.Options {
	m := mover.Options{
		Source: filepath.Join(o.Sources, c.Name), Target: filepath.Join(o.Targets, c.Name),
		Workers: o.Workers, Pass: pass, Token: o.Token, Member: o.Member, Mount: o.Mount, OwnOnly: true, Refill: o.Refill,
		Settled: o.Settled, Margin: c.Margin, ProgressInterval: o.ProgressInterval,
	}
	if pass == mover.PassFirst {
		m.Limit = o.Limit
	}
	return m
}

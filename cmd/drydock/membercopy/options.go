//go:build linux

package membercopy

import (
	"path/filepath"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// Options name the claims and say how to copy them. Zero values of durations mean their defaults.
type Options struct {
	Claims           []moverreport.Claim
	Sources, Targets string // directories with an entry for each claim
	Token, Member    string // see mover.Options
	Refill           bool   // see mover.Options
	MaxStop          time.Duration
	Limit            *mover.Limiter // bandwidth limit of the passes beside the running member
	Workers          int
	Settled          time.Duration // see mover.Options
	Idle             time.Duration // pause between two passes

	Progress         func(moverreport.Progress) // may be nil
	ProgressInterval time.Duration

	// Used by Final and Pin.
	Annotations string        // the file with the pod's annotations
	Lease       time.Duration // how long the mover waits without a renewal
	Poll        time.Duration // how often the file is read
	Warn        func(string)  // called if annotations cannot be read; may be nil
}

// Defaults of the options.
const (
	DefaultIdle = 20 * time.Second
	DefaultPoll = 100 * time.Millisecond
)

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

// forClaim returns the options for the copy of one claim.
func (o Options) forClaim(c moverreport.Claim, pass mover.Pass) mover.Options {
	m := mover.Options{
		Source: filepath.Join(o.Sources, c.Name), Target: filepath.Join(o.Targets, c.Name),
		Workers: o.Workers, Pass: pass, Token: o.Token, Member: o.Member, OwnOnly: true, Refill: o.Refill,
		Settled: o.Settled, Margin: c.Margin, ProgressInterval: o.ProgressInterval,
	}
	if pass == mover.PassFirst {
		m.Limit = o.Limit
	}
	return m
}

//go:build linux

package membercopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// Final waits beside the running member until the pod's annotations have a signal, then makes the final pass. The wait ends without
// it if the lease is lost, if a final pass would take too long, or if a further first pass fails.
func Final(ctx context.Context, o Options) moverreport.MemberReport {
	r := newRun(o, moverreport.FinalContainer)
	told, err := r.waitForOrder(ctx)
	switch {
	case ctx.Err() != nil:
		return r.failed(context.Cause(ctx))
	case told == nil && errors.Is(err, errNotConverged):
		return r.notConverged()
	case told == nil:
		return r.failed(err)
	case told.signal == nil:
		return r.report(moverreport.ResultFailed, moverreport.CodeLeaseLost, moverreport.ReasonLeaseLost, fmt.Sprintf(
			"annotation %s of this pod did not change for %s, so the mover ended; look at the functions' logs",
			moverreport.LeaseAnnotation, r.o.Lease))
	}
	r.signal = told.signal
	forecast := r.forecast()
	r.restart()
	if err := r.pass(ctx, mover.PassFinal); err != nil {
		return r.failed(err)
	}
	return r.report(moverreport.ResultCopied, moverreport.CodeOK, moverreport.ReasonCopied, fmt.Sprintf(
		"the targets are verified copies; the final pass took %s, the forecast was %s", rounded(time.Since(r.began)), rounded(forecast)))
}

// waitForOrder returns the order that ended the wait or, without one, why the wait ended.
func (r *run) waitForOrder(ctx context.Context) (*order, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	orders := make(chan *order, 1)
	go func() {
		orders <- watch(waiting, r.o)
		stop() // also ends a pass that is under way
	}()
	err := r.wait(waiting)
	stop()
	return <-orders, err
}

var errNotConverged = errors.New("the final pass would take too long")

const (
	// cheap is how much time for contents a final pass may have before another first pass is worth its trouble.
	cheap = 200 * time.Millisecond
	// restShare bounds the load on the member's storage: passes and surveys rest that many times as long as the last one took. A
	// bandwidth limit bounds passes by itself.
	restShare = 9
	// deviceRestShare is for devices: each pass reads all of them.
	deviceRestShare = 19
	// overLimit is after how many passes in a row with too long a forecast the wait ends.
	overLimit = 2
)

// wait makes further first passes, so that the final pass stays short. It returns errNotConverged,
// the error of a pass, or the context's cause.
func (r *run) wait(ctx context.Context) error {
	over, due, pause := 0, true, r.o.Idle
	for {
		if due {
			if err := r.pass(ctx, mover.PassWarm); err != nil {
				return err
			}
		}
		switch {
		case r.forecast() <= r.o.MaxStop:
			over = 0
		case due:
			over++
		}
		if over >= overLimit {
			return errNotConverged
		}
		if err := r.idle(ctx, pause); err != nil {
			return err
		}
		began := time.Now()
		contents, err := r.survey(ctx)
		if err != nil {
			return err
		}
		pause = max(r.o.Idle, restShare*time.Since(began))
		due = r.forecast() > r.o.MaxStop || r.isRested() && contents > cheap
	}
}

// isRested reports whether the last pass is long enough ago for another one.
func (r *run) isRested() bool {
	for i := range r.claims {
		c := &r.claims[i]
		share := time.Duration(restShare)
		switch {
		case c.Device:
			share = deviceRestShare
		case r.o.Limit != nil:
			share = 0
		}
		if time.Since(c.ended) < share*c.took {
			return false
		}
	}
	return true
}

// survey brings the forecast up to date. It returns how much of it is for contents: of a device always all.
func (r *run) survey(ctx context.Context) (time.Duration, error) {
	var contents time.Duration
	for i := range r.claims {
		c := &r.claims[i]
		if c.Device {
			contents += c.figures.Contents()
			continue
		}
		f, err := mover.Survey(ctx, r.o.of(c.Claim, mover.PassWarm), c.last)
		if err != nil {
			return 0, &claimError{c.Name, err}
		}
		c.figures = f
		contents += f.Contents()
	}
	return contents, nil
}

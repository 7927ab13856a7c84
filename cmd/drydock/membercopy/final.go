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

// First makes passes beside the running member until the forecast of the final pass is at most the longest stop, or
// stops falling. It is safe to repeat: it resumes a killed one.
func First(ctx context.Context, o Options) moverreport.MemberReport {
	r := newRun(o, moverreport.FirstContainer)
	var samples []sample
	for {
		began := time.Now()
		if err := r.firstPass(ctx); err != nil {
			return r.failedReport(err)
		}
		samples = append(samples, sample{began, r.forecast()})
		switch assess(samples, r.options.MaxStop, r.options.Settled) {
		case converged:
			return r.report(moverreport.ResultConverged, moverreport.CodeOK, moverreport.ReasonConverged, fmt.Sprintf(
				"the final pass takes about %s, which is within the longest stop of %s", rounded(r.forecast()), r.options.MaxStop))
		case notConverged:
			return r.notConvergedReport()
		case repeatLater:
			if err := r.idle(ctx, r.options.Idle); err != nil {
				return r.failedReport(err)
			}
		}
	}
}

// idle waits between two passes and reports that as progress.
func (r *run) idle(ctx context.Context, d time.Duration) error {
	if r.options.Progress != nil {
		r.options.Progress(moverreport.Progress{Phase: moverreport.PhaseWait, Pass: r.passes, ForecastSeconds: seconds(r.forecast())})
	}
	return sleep(ctx, d)
}

// Final waits beside the running member until the pod's annotations have a signal, then makes the final pass. The wait
// ends without a final pass if the lease is lost, if a final pass would take too long, or if a further first pass fails.
func Final(ctx context.Context, o Options) moverreport.MemberReport {
	r := newRun(o, moverreport.FinalContainer)
	end, err := r.waitForSignal(ctx)
	switch {
	case ctx.Err() != nil:
		return r.failedReport(context.Cause(ctx))
	case end == nil && errors.Is(err, errNotConverged):
		return r.notConvergedReport()
	case end == nil:
		return r.failedReport(err)
	case end.signal == nil:
		return r.report(moverreport.ResultFailed, moverreport.CodeLeaseLost, moverreport.ReasonLeaseLost, fmt.Sprintf(
			"annotation %s of this pod did not change for %s, so the mover ended. See the functions' logs",
			moverreport.LeaseAnnotation, r.options.Lease))
	}
	r.signal = end.signal
	forecast := r.forecast()
	r.resetReports()
	if err := r.finalPass(ctx); err != nil {
		return r.failedReport(err)
	}
	return r.report(moverreport.ResultCopied, moverreport.CodeOK, moverreport.ReasonCopied, fmt.Sprintf(
		"the targets are verified copies. The final pass took %s, the forecast was %s", rounded(time.Since(r.began)), rounded(forecast)))
}

// waitForSignal returns how the annotations ended the wait or, if they did not, why the wait ended.
func (r *run) waitForSignal(ctx context.Context) (*waitEnd, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	ends := make(chan *waitEnd, 1)
	go func() {
		ends <- watch(waiting, r.options)
		stop() // also ends a pass in progress
	}()
	err := r.wait(waiting)
	stop()
	return <-ends, err
}

var errNotConverged = errors.New("the final pass would take too long")

const (
	// worthwhileContents is the time for contents in a final pass above which another first pass is worthwhile.
	worthwhileContents = 200 * time.Millisecond
	// restFactor bounds the load on the member's storage: after a pass or survey, the next one waits this many times as long
	// as the last one took. A bandwidth limit makes that unnecessary for passes.
	restFactor = 9
	// deviceRestFactor is the same for devices: each pass reads all of a device.
	deviceRestFactor = 19
	// maxPassesOverLimit is how many passes in a row may have a forecast above the longest stop before the wait ends.
	maxPassesOverLimit = 2
)

// wait makes further first passes, so that the final pass stays short. It returns errNotConverged, the error of a pass,
// or the context's cause.
func (r *run) wait(ctx context.Context) error {
	over, due, pause := 0, true, r.options.Idle
	for {
		if due {
			if err := r.firstPass(ctx); err != nil {
				return err
			}
		}
		switch {
		case r.forecast() <= r.options.MaxStop:
			over = 0
		case due:
			over++
		}
		if over >= maxPassesOverLimit {
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
		pause = max(r.options.Idle, restFactor*time.Since(began))
		due = r.forecast() > r.options.MaxStop || r.isRested() && contents > worthwhileContents
	}
}

// isRested reports whether enough time has passed since the last pass for another one.
func (r *run) isRested() bool {
	for i := range r.claims {
		c := &r.claims[i]
		share := time.Duration(restFactor)
		switch {
		case c.Device:
			share = deviceRestFactor
		case r.options.Limit != nil:
			share = 0
		}
		if time.Since(c.ended) < share*c.took {
			return false
		}
	}
	return true
}

// survey updates the forecast. It returns the part of it that depends on contents. For a device that is always the whole
// contents.
func (r *run) survey(ctx context.Context) (time.Duration, error) {
	var contents time.Duration
	for i := range r.claims {
		c := &r.claims[i]
		if c.Device {
			contents += c.figures.Contents()
			continue
		}
		f, err := mover.Survey(ctx, r.options.forClaim(c.Claim, mover.PassFirst), c.last)
		if err != nil {
			return 0, &claimError{c.Name, err}
		}
		c.figures = f
		contents += f.Contents()
	}
	return contents, nil
}

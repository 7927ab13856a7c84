//go:build linux

package membercopy

import (
	"context"
	"fmt"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// First makes passes beside the running member until the forecast of the final pass is below the longest stop, or does not fall any
// more. It is safe to repeat: it resumes a killed one.
func First(ctx context.Context, o Options) moverreport.MemberReport {
	r := newRun(o, moverreport.FirstContainer)
	var samples []sample
	for {
		began := time.Now()
		if err := r.pass(ctx, mover.PassWarm); err != nil {
			return r.failed(err)
		}
		samples = append(samples, sample{began, r.forecast()})
		switch judge(samples, r.o.MaxStop, r.o.Settled) {
		case converged:
			return r.report(moverreport.ResultConverged, moverreport.CodeOK, moverreport.ReasonConverged, fmt.Sprintf(
				"the final pass takes about %s, which is within the longest stop of %s", rounded(r.forecast()), r.o.MaxStop))
		case notConverged:
			return r.notConverged()
		case later:
			if err := r.idle(ctx, r.o.Idle); err != nil {
				return r.failed(err)
			}
		}
	}
}

// idle waits between two passes, and says so.
func (r *run) idle(ctx context.Context, d time.Duration) error {
	if r.o.Progress != nil {
		r.o.Progress(moverreport.Progress{Phase: moverreport.PhaseWait, Pass: r.passes, ForecastSeconds: seconds(r.forecast())})
	}
	return sleep(ctx, d)
}

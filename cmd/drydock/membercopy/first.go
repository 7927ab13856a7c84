//go:build linux

package membercopy

import (
	"context"
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
		if err := r.pass(ctx, mover.PassFirst); err != nil {
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

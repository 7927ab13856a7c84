//go:build linux

package membercopy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// run is the work of one container.
type run struct {
	options Options
	stage   string
	began   time.Time
	claims  []claim
	passes  int       // completed first passes
	times   []float64 // their durations in seconds
	signal  *moverreport.Signal
}

// claim is one claim with the state of its copy.
type claim struct {
	moverreport.Claim
	report  moverreport.ClaimReport
	last    mover.Result  // result of the last first pass
	figures mover.Figures // its figures, with gaps filled from earlier passes
	ended   time.Time     // when that pass ended
	took    time.Duration
}

func newRun(o Options, stage string) *run {
	r := &run{options: o.withDefaults(), stage: stage, began: time.Now()}
	for _, c := range o.Claims {
		r.claims = append(r.claims, claim{Claim: c, report: moverreport.ClaimReport{Name: c.Name}})
	}
	return r
}

// claimError adds the claim's name to an error.
type claimError struct {
	claim string
	err   error
}

func (e *claimError) Error() string { return fmt.Sprintf("claim %s: %v", e.claim, e.err) }
func (e *claimError) Unwrap() error { return e.err }

// pass copies all claims once.
func (r *run) pass(ctx context.Context, pass mover.Pass) error {
	began := time.Now()
	for i := range r.claims {
		if err := r.claims[i].copy(ctx, r, pass); err != nil {
			return &claimError{r.claims[i].Name, err}
		}
	}
	if pass == mover.PassFirst {
		r.passes++
		r.times = append(r.times, time.Since(began).Seconds())
	}
	return nil
}

func (c *claim) copy(ctx context.Context, r *run, pass mover.Pass) error {
	o := r.options.forClaim(c.Claim, pass)
	o.Progress, o.Last = r.progress(c.Name, pass), c.last
	copyVolume := mover.Copy
	if c.Device {
		copyVolume = mover.CopyDevice
	}
	began := time.Now()
	result, err := copyVolume(ctx, o)
	c.addResult(result, err)
	if err == nil && pass == mover.PassFirst {
		c.figures = result.Figures.WithGapsFrom(c.figures)
		result.Figures = c.figures
		c.last, c.ended, c.took = result, time.Now(), time.Since(began)
	}
	return err
}

// progress returns a callback that adds the claim and the number of the pass.
func (r *run) progress(claim string, pass mover.Pass) func(moverreport.Progress) {
	if r.options.Progress == nil {
		return nil
	}
	number := 0
	if pass == mover.PassFirst {
		number = r.passes + 1
	}
	return func(p moverreport.Progress) {
		p.Claim, p.Pass = claim, number
		r.options.Progress(p)
	}
}

// forecast returns how long a final pass of all claims would take, according to the last first pass or survey.
func (r *run) forecast() time.Duration {
	var all time.Duration
	for i := range r.claims {
		all += r.claims[i].figures.Forecast()
	}
	return all
}

// sleep waits. If the context ends first, it returns the context's cause.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addResult adds the numbers of one copy of the claim. A failed copy counts, too.
func (c *claim) addResult(result mover.Result, err error) {
	one := mover.NewReport(result, err, 0)
	earlier := c.report
	c.report = moverreport.ClaimReport{
		Name: earlier.Name, Bytes: earlier.Bytes + one.Bytes, Files: earlier.Files + one.Files, Deleted: earlier.Deleted + one.Deleted,
		Skipped: one.Skipped, Total: one.Total, Digest: one.Digest, Changed: one.Changed,
		RecordedFiles: one.RecordedFiles, RecordedBytes: one.RecordedBytes,
		TrustedFiles: one.TrustedFiles, TrustedBytes: one.TrustedBytes,
		Count: one.Count, Problems: one.Problems, Warnings: earlier.Warnings,
	}
	for _, w := range one.Warnings { // a later pass skips files that an earlier pass has copied
		if !slices.Contains(c.report.Warnings, w) {
			c.report.Warnings = append(c.report.Warnings, w)
		}
	}
}

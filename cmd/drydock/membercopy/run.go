//go:build linux

package membercopy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
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
	Records          string         // a directory for the records that a container leaves for the next one; "" for none
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
	if o.Records != "" {
		m.Record = filepath.Join(o.Records, c.Name)
	}
	if pass == mover.PassFirst {
		m.Limit = o.Limit
	}
	return m
}

// run is the work of one container.
type run struct {
	options Options
	stage   string
	began   time.Time
	claims  []claim
	passes  int       // completed first passes
	times   []float64 // their durations in seconds
	signal  *moverreport.Signal

	reporting sync.Mutex // the copies of a final pass report their progress one at a time
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

// firstPass copies all claims once, one after the other: each loads the storage of the running member.
func (r *run) firstPass(ctx context.Context) error {
	began := time.Now()
	for i := range r.claims {
		if err := r.claims[i].copy(ctx, r, mover.PassFirst); err != nil {
			return &claimError{r.claims[i].Name, err}
		}
	}
	r.passes++
	r.times = append(r.times, time.Since(began).Seconds())
	return nil
}

// finalPass copies all claims at the same time, because the member is stopped and its volumes are often on different disks. The first
// failure ends the other copies.
func (r *run) finalPass(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	failed := make(chan error, len(r.claims))
	for i := range r.claims {
		c := &r.claims[i]
		all.Go(func() {
			if err := c.copy(ctx, r, mover.PassFinal); err != nil {
				failed <- &claimError{c.Name, err}
				stop()
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed // nil without a failure
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
		r.reporting.Lock()
		defer r.reporting.Unlock()
		r.options.Progress(p)
	}
}

// forecast returns how long a final pass of all claims takes at most, according to the last first pass or survey: the claims may be on one
// disk.
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
		Skipped: one.Skipped, Total: one.Total, Verified: one.Verified, Changed: one.Changed,
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

// passTimes is the number of pass durations in a report.
const passTimes = 10

func seconds(d time.Duration) float64       { return math.Round(d.Seconds()*1000) / 1000 }
func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// resetReports drops the numbers of this container's first passes, because the report describes the final pass.
func (r *run) resetReports() {
	r.began = time.Now()
	for i := range r.claims {
		r.claims[i].report = moverreport.ClaimReport{Name: r.claims[i].Name}
	}
}

func (r *run) report(result string, code int, reason moverreport.Reason, message string) moverreport.MemberReport {
	report := moverreport.MemberReport{
		Stage: r.stage, Result: result, Code: code, Reason: reason, Message: message, Signal: r.signal, Passes: r.passes,
		ForecastSeconds: seconds(r.forecast()), MaxStopSeconds: seconds(r.options.MaxStop), Seconds: seconds(time.Since(r.began)),
	}
	for _, s := range r.times[max(0, len(r.times)-passTimes):] {
		report.PassSeconds = append(report.PassSeconds, math.Round(s*1000)/1000)
	}
	for _, c := range r.claims {
		report.Claims = append(report.Claims, c.report)
	}
	return report
}

func (r *run) notConvergedReport() moverreport.MemberReport {
	return r.report(moverreport.ResultNotConverged, moverreport.CodeNotConverged, moverreport.ReasonNotConverged, fmt.Sprintf(
		"the final pass would take about %s, longer than the longest stop of %s, and further passes do not shorten it. "+
			"Allow a longer stop with drydock.dev/max-stop, or try again when the member writes less", rounded(r.forecast()), r.options.MaxStop))
}

// failedReport returns the report for an error of the mover or the end of the context.
func (r *run) failedReport(err error) moverreport.MemberReport {
	one := mover.NewReport(mover.Result{}, err, 0)
	message := one.Message
	if c := (*claimError)(nil); errors.As(err, &c) {
		message = "claim " + c.claim + ": " + message
	}
	return r.report(moverreport.ResultFailed, one.Code, one.Reason, message)
}

// Pin waits until the context ends or the lease is lost, and returns the exit code. It touches no volume. The
// node keeps the volumes of a pod attached while a container of the pod runs.
func Pin(ctx context.Context, o Options) int {
	o = o.withDefaults()
	l := lease{last: time.Now(), length: o.Lease}
	for {
		in, _ := readInstructions(o.Annotations) // an unreadable lease counts as not renewed
		if l.isLost(time.Now(), in.Lease) {
			return moverreport.CodeLeaseLost
		}
		if err := sleep(ctx, o.Poll); err != nil {
			return mover.NewReport(mover.Result{}, err, 0).Code
		}
	}
}

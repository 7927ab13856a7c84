//go:build linux

package membercopy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

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

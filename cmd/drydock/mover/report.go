//go:build linux

package mover

import (
	"errors"
	"math"
	"time"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/shared/moverreport"
)

// NewReport returns the report of a copy from the values that Copy returned.
func NewReport(r Result, err error, took time.Duration) moverreport.Report {
	report := moverreport.Report{
		Result: "copied", Code: moverreport.CodeOK, Reason: moverreport.ReasonCopied, Message: "the target is a verified copy of the source",
		Bytes: r.Bytes, Files: r.Files, Skipped: r.Skipped, Deleted: r.Deleted, Total: r.Total,
		Seconds: math.Round(took.Seconds()*1000) / 1000, Warnings: r.Warnings,
		Changed: r.Changed, RecordedFiles: r.RecordedFiles, RecordedBytes: r.RecordedBytes,
		TrustedFiles: r.TrustedFiles, TrustedBytes: r.TrustedBytes,
	}
	switch {
	case r.Pass == tree.PassFirst:
		report.Result, report.Reason = "first-pass", moverreport.ReasonFirstPassDone
		report.Message = "the target holds most of the source's data. A final pass completes the copy"
	case r.Verified:
		report.Verified = true
	default:
		report.Message = "the target is a copy of the source, which was not verified"
	}
	if err == nil {
		return report
	}
	e := fault.ToError(err, nil)
	errors.As(err, &e)
	report.Result, report.Code, report.Reason, report.Message = "failed", e.Code, e.Reason, e.Message
	report.Count, report.Problems = e.Count, e.Paths
	return report
}

package mover

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"time"
	"unicode/utf8"
)

// TerminationLogLimit is how many bytes Kubernetes keeps of a container's termination message.
const TerminationLogLimit = 4096

// Report is the last word of a copy, for machines and people.
type Report struct {
	Result  string `json:"result"` // "copied", "warmed" or "failed"
	Code    int    `json:"code"`   // the exit code
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	Bytes   int64  `json:"bytes"` // data bytes written
	Files   int64  `json:"files"` // entries written, directories not counted
	Skipped int64  `json:"skipped"`
	Deleted int64  `json:"deleted"`
	Digest  string `json:"digest,omitempty"`

	// Of copies in two passes; see Result.
	Changed       int64 `json:"changed,omitempty"`
	RecordedFiles int64 `json:"recordedFiles,omitempty"`
	RecordedBytes int64 `json:"recordedBytes,omitempty"`
	TrustedFiles  int64 `json:"trustedFiles,omitempty"`
	TrustedBytes  int64 `json:"trustedBytes,omitempty"`

	Seconds  float64  `json:"seconds"`
	Count    int      `json:"problemCount,omitempty"`
	Problems []string `json:"problems,omitempty"` // the first of them
	Warnings []string `json:"warnings,omitempty"`
	Omitted  int      `json:"omitted,omitempty"` // problems and warnings left out for want of room
}

// NewReport speaks of what Copy returned.
func NewReport(r Result, err error, took time.Duration) Report {
	report := Report{
		Result: "copied", Code: CodeOK, Reason: ReasonCopied, Message: "the target is a verified copy of the source",
		Bytes: r.Bytes, Files: r.Files, Skipped: r.Skipped, Deleted: r.Deleted, Digest: r.Digest,
		Seconds: math.Round(took.Seconds()*1000) / 1000, Warnings: r.Warnings,
		Changed: r.Changed, RecordedFiles: r.RecordedFiles, RecordedBytes: r.RecordedBytes,
		TrustedFiles: r.TrustedFiles, TrustedBytes: r.TrustedBytes,
	}
	switch {
	case r.Pass == PassWarm:
		report.Result, report.Reason = "warmed", ReasonWarmed
		report.Message = "the target holds most of what the source held; a final pass makes it a copy"
	case r.Digest == "":
		report.Message = "the target is a copy of the source; it was not verified"
	}
	if err == nil {
		return report
	}
	e := toError(err, nil)
	errors.As(err, &e)
	report.Result, report.Code, report.Reason, report.Message = "failed", e.Code, e.Reason, e.Message
	report.Count, report.Problems = e.Count, e.Paths
	return report
}

// Encode is the report as one line of JSON without line break, of at most limit bytes (if that is not less than 512).
// First the lists are cut, then the message.
func (r Report) Encode(limit int) []byte {
	r.Problems, r.Warnings = append([]string(nil), r.Problems...), append([]string(nil), r.Warnings...)
	for {
		b, err := json.Marshal(r)
		switch {
		case err != nil: // no value of these types does this
			return []byte(`{"result":"failed","code":1,"reason":"IOError","message":"the report could not be written"}`)
		case len(b) <= limit:
			return b
		case len(r.Warnings) > 1:
			r.Warnings = r.Warnings[:len(r.Warnings)-1]
			r.Omitted++
		case len(r.Problems) > 0:
			r.Problems = r.Problems[:len(r.Problems)-1]
			r.Omitted++
		case len(r.Warnings) > 0:
			r.Warnings = nil
			r.Omitted++
		case r.Message == "":
			return b
		default:
			r.Message = shorten(r.Message, len(r.Message)*limit/len(b)) // escapes take room, too: by proportion, and again
		}
	}
}

// shorten cuts a message to so many bytes in the middle, where a long path is, so that what to do stays.
func shorten(s string, to int) string {
	const gap = " ... "
	keep := to - len(gap)
	if keep <= 0 {
		return ""
	}
	head, tail := s[:keep/2], s[len(s)-keep/2:]
	for len(head) > 0 && !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.ValidString(tail) {
		tail = tail[1:]
	}
	return head + gap + tail
}

// WriteFile writes the report over a file that exists already, as Kubernetes' termination log does, or makes it.
func (r Report) WriteFile(path string) error {
	return os.WriteFile(path, r.Encode(TerminationLogLimit), 0o644)
}

package moverreport

import (
	"encoding/json"

	"drydock.dev/shared/text"
)

// TerminationLogLimit is the maximum size of a container's termination message in bytes. Kubernetes truncates longer ones. It truncates
// shorter ones, too, if a pod has more than three containers, because they share 12 KiB (kubernetes pkg/kubelet/status, normalizeStatus).
const TerminationLogLimit = 4096

// Report says how a copy ended, for programs and people.
type Report struct {
	Result  string `json:"result"` // "copied", "first-pass" or "failed"
	Code    int    `json:"code"`   // the exit code
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	Bytes   int64  `json:"bytes"` // data bytes written
	Files   int64  `json:"files"` // entries written, directories not counted
	Skipped int64  `json:"skipped"`
	Deleted int64  `json:"deleted"`
	Total   int64  `json:"total,omitempty"` // data bytes of the source, written or not
	Digest  string `json:"digest,omitempty"`

	// For copies in two passes, see mover.Result.
	Changed       int64 `json:"changed,omitempty"`
	RecordedFiles int64 `json:"recordedFiles,omitempty"`
	RecordedBytes int64 `json:"recordedBytes,omitempty"`
	TrustedFiles  int64 `json:"trustedFiles,omitempty"`
	TrustedBytes  int64 `json:"trustedBytes,omitempty"`

	Seconds  float64  `json:"seconds"`
	Count    int      `json:"problemCount,omitempty"`
	Problems []string `json:"problems,omitempty"` // the first of them
	Warnings []string `json:"warnings,omitempty"`
	Omitted  int      `json:"omitted,omitempty"` // problems and warnings left out to fit the limit
}

// Size returns the number of bytes as a message of a report writes it, for example "1.5 GiB".
func Size(bytes int64) string { return text.Bytes(bytes) }

// Encode returns the report as one line of JSON without a line break, of at most limit bytes. The limit must be at least
// 512. To fit, it first cuts the lists, then the message.
func (r Report) Encode(limit int) []byte {
	r.Problems, r.Warnings = append([]string(nil), r.Problems...), append([]string(nil), r.Warnings...)
	for {
		b, err := json.Marshal(r)
		switch {
		case err != nil: // impossible with these types
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
			r.Message = text.ClipMiddle(r.Message, len(r.Message)*limit/len(b)) // escapes need space, too: shorten in proportion, then check again
		}
	}
}

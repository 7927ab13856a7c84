// Package moverreport is the contract between the mover and the functions that start it: arguments, annotations, exit codes,
// reasons, progress lines and reports. The package imports the standard library only and does no I/O.
//
// # A mover that waits for its member
//
// One pod copies all claims of one member. It mounts both volumes of each claim: the claim's at SourceDir/<name>, read-only,
// and the new one at TargetDir/<name>; <name> is the volume claim template. Raw block volumes have their devices at these
// paths. It has three containers of one image. The first two have the same security context and the same volumes:
//
//   - the init container FirstContainer, with Order.FirstArgs, copies while the member runs. It makes first passes until the
//     forecast of the final pass is at most Order.MaxStop. It ends with CodeOK, or with CodeNotConverged if the forecast does
//     not fall any more. The report has both figures.
//   - the init container FinalContainer, with Order.FinalArgs, waits beside the running member. It makes further first passes, so
//     that the final pass stays short. When it reads SignalAnnotation, it makes the final pass. The member must be stopped then.
//   - the container PinContainer, with Order.PinArgs, starts after the final pass has succeeded. It mounts no claim and
//     copies nothing. As long as it runs, the pod's volumes stay attached to the node, so that the member finds them there. It
//     ends on SIGTERM, with CodeTerminated, or when its lease is lost, with CodeLeaseLost.
//
// The pod is Pending until PinContainer runs. The copy is complete when FinalContainer has terminated with CodeOK.
//
// FinalContainer and PinContainer read the pod's annotations from a downward API volume: PodInfoDir/AnnotationsFile, from the field
// metadata.annotations. The functions write two of them:
//
//   - LeaseAnnotation: a text that is not empty and changes with each renewal. If it does not change for Order.Lease by the
//     mover's clock, the mover ends with CodeLeaseLost. After FinalContainer has read the signal, its lease does not matter.
//   - SignalAnnotation: Signal.Encode, written once, after the member has provably stopped. The report of the final pass repeats
//     the Signal, so the reader knows which hold it belongs to. The mover does not check the signal. It reads only one signal.
//     Another attempt needs another pod.
//
// The mover reads a signal within about a fifth of a second after the kubelet has refreshed the file, also during a pass.
//
// FinalContainer ends with CodeNotConverged if the forecast was above Order.MaxStop after two passes in a row. SIGTERM ends all
// containers in every state, with CodeTerminated. Only Result "copied" with CodeOK means that the targets are verified copies.
// A killed pod can be replaced: the new pod resumes the copy. It copies no file again, and verifies all, because the volumes may have been
// unmounted between the two pods; PodVariable tells it. If the old pod was sent a signal, the new one needs Order.Refill.
//
// The first two containers write one MemberReport each to their termination message and, as the last line, to their log. The other lines
// of the log are Progress.
//
// # A mover of one pass
//
// `drydock copy` without first or final copies one claim in one pass. It writes Progress and, as its last line, the Report to
// its log, and the Report to its pod's termination message.
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
	Result   string `json:"result"` // "copied", "first-pass" or "failed"
	Code     int    `json:"code"`   // the exit code
	Reason   Reason `json:"reason"`
	Message  string `json:"message"`
	Bytes    int64  `json:"bytes"` // data bytes written
	Files    int64  `json:"files"` // entries written, directories not counted
	Skipped  int64  `json:"skipped"`
	Deleted  int64  `json:"deleted"`
	Total    int64  `json:"total,omitempty"`    // data bytes of the source, written or not
	Verified bool   `json:"verified,omitempty"` // both sides were read back and compared

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

// Phase is a phase of a copy.
type Phase string

// The phases, in their order.
const (
	PhaseScan   Phase = "scan"
	PhaseCopy   Phase = "copy"
	PhaseSync   Phase = "sync"
	PhaseVerify Phase = "verify"
	// PhaseWait is between two passes of a waiting mover.
	PhaseWait Phase = "wait"
)

// Progress is the progress of a phase. Bytes are data bytes of regular files; hard links count once, and holes do not
// count. The total is an estimate until all files were read. Files are all entries except directories. Totals grow
// during the scan.
type Progress struct {
	Phase      Phase `json:"phase"`
	BytesDone  int64 `json:"bytesDone"`
	BytesTotal int64 `json:"bytesTotal"`
	FilesDone  int64 `json:"filesDone"`
	FilesTotal int64 `json:"filesTotal"`
	// Steps counts work that moves no bytes or files: directories that are created or finished, names that are deleted.
	Steps int64 `json:"steps,omitempty"`

	// Set by a waiting mover.
	Claim           string  `json:"claim,omitempty"`           // the volume claim template; "" while it waits
	Pass            int     `json:"pass,omitempty"`            // number of the first pass; 0 in the final pass
	ForecastSeconds float64 `json:"forecastSeconds,omitempty"` // forecast of the final pass at the end of the last first pass
}

// Reason is a word by which programs distinguish results. Reasons are only added, never removed.
type Reason string

// Reasons of a report.
const (
	ReasonCopied        Reason = "Copied"
	ReasonFirstPassDone Reason = "FirstPassDone"
	ReasonIOError       Reason = "IOError"
	ReasonUsage         Reason = "InvalidArguments"
	ReasonSourceChanged Reason = "SourceChanged"
	ReasonNoSpace       Reason = "NoSpace"
	ReasonQuota         Reason = "QuotaExceeded"
	ReasonMismatch      Reason = "VerificationFailed"
	// ReasonNotFaithful: an entry cannot be reproduced. If rights are missing, a root mover may have them.
	ReasonNotFaithful Reason = "NotFaithful"
	// ReasonSELinux: an entry cannot be read because of SELinux, so a root mover does not help.
	ReasonSELinux        Reason = "DeniedBySELinux"
	ReasonTargetNotEmpty Reason = "TargetNotEmpty"
	ReasonInterrupted    Reason = "Interrupted"
	// ReasonConverged: the next pass is expected to be short enough.
	ReasonConverged    Reason = "Converged"
	ReasonNotConverged Reason = "NotConverged"
	ReasonLeaseLost    Reason = "LeaseLost"
)

package moverreport

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

package moverreport

// Reason is a word for machines to tell results apart. The set only grows.
type Reason string

// Reasons of a report.
const (
	ReasonCopied        Reason = "Copied"
	ReasonWarmed        Reason = "Warmed"
	ReasonIOError       Reason = "IOError"
	ReasonUsage         Reason = "InvalidArguments"
	ReasonSourceChanged Reason = "SourceChanged"
	ReasonNoSpace       Reason = "NoSpace"
	ReasonQuota         Reason = "QuotaExceeded"
	ReasonMismatch      Reason = "VerificationFailed"
	// ReasonNotFaithful: something cannot be reproduced. Where rights are missing, a root mover may have them.
	ReasonNotFaithful Reason = "NotFaithful"
	// ReasonSELinux is a NotFaithful whose cause is SELinux, so that a root mover does not help.
	ReasonSELinux        Reason = "DeniedBySELinux"
	ReasonTargetNotEmpty Reason = "TargetNotEmpty"
	ReasonInterrupted    Reason = "Interrupted"
	// ReasonConverged: the next pass is expected to be short enough.
	ReasonConverged    Reason = "Converged"
	ReasonNotConverged Reason = "NotConverged"
	ReasonLeaseLost    Reason = "LeaseLost"
)

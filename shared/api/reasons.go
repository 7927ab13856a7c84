package api

// Reason is a CamelCase word for why a function did what it did: in the status, in Kubernetes Events, in logs.
type Reason string

// Nothing to do, or somebody else's turn.
const (
	SetGone        Reason = "SetGone"        // the StatefulSet does not exist
	NotManaged     Reason = "NotManaged"     // it lacks the opt-in label
	NotRequested   Reason = "NotRequested"   // nobody asked for a resize
	UpToDate       Reason = "UpToDate"       // every claim is as asked for
	NotOurPhase    Reason = "NotOurPhase"    // another function has the operation
	AlreadyRefused Reason = "AlreadyRefused" // the same request was refused before; it waits for a retry
	InProgress     Reason = "InProgress"     // an operation runs already
	NotIdle        Reason = "NotIdle"        // there is a reason to be awake
	StaysAsleep    Reason = "StaysAsleep"    // there is none to wake it
	AtZeroAlready  Reason = "AtZeroAlready"  // somebody else has scaled it to zero, who wakes it too
	NothingFailed  Reason = "NothingFailed"  // a retry was asked for where nothing failed or was refused
)

// The operation moves on.
const (
	ResizeDetected  Reason = "ResizeDetected"
	OwnerPausing    Reason = "OwnerPausing"
	OwnerConsents   Reason = "OwnerConsents"
	OwnerResumed    Reason = "OwnerResumed"
	OwnerStays      Reason = "OwnerStays" // paused: the operation goes on, or a claim of the set is not whole
	Preparing       Reason = "Preparing"
	Quiescing       Reason = "Quiescing"
	CopyRunning     Reason = "CopyRunning"
	CopyVerified    Reason = "CopyVerified"
	SwitchRunning   Reason = "SwitchRunning"
	ClaimsSwitched  Reason = "ClaimsSwitched"
	WaitingForReady Reason = "WaitingForReady"
	CleaningUp      Reason = "CleaningUp"
	ResizeCompleted Reason = "ResizeCompleted"
	RollingBackNow  Reason = "RollingBack"
	VolumeReleased  Reason = "VolumeReleased"
	Retrying        Reason = "Retrying"
	SleepDecided    Reason = "SleepDecided"
	ActivityNoted   Reason = "ActivityNoted"
	ScalingDown     Reason = "ScalingDown"
	FellAsleep      Reason = "FellAsleep"
	WakingUp        Reason = "WakingUp"
	Awake           Reason = "Awake"
	RolloutRunning  Reason = "RolloutRunning"
	DependentAwake  Reason = "DependentAwake"
	DependencyFirst Reason = "DependencyFirst"
)

// The request cannot be carried out.
const (
	RequestInvalid   Reason = "RequestInvalid"
	StatusInvalid    Reason = "StatusInvalid"
	LinkInvalid      Reason = "LinkInvalid"
	NoTemplates      Reason = "NoTemplates"
	UnknownTemplate  Reason = "UnknownTemplate"
	UnknownClass     Reason = "UnknownClass"
	MethodUnknown    Reason = "MethodUnknown"
	ShrinkRefused    Reason = "ShrinkRefused"
	BlockVolume      Reason = "BlockVolume"
	ForeignClaim     Reason = "ForeignClaim"
	ForeignConsumer  Reason = "ForeignConsumer"
	ClaimNotBound    Reason = "ClaimNotBound"
	ClaimBusy        Reason = "ClaimBusy"
	NameTooLong      Reason = "NameTooLong"
	QuotaExceeded    Reason = "QuotaExceeded"
	LimitExceeded    Reason = "LimitExceeded"
	TooManyClaims    Reason = "TooManyClaims"
	OwnerNotPausable Reason = "OwnerNotPausable"
	OwnerDeleting    Reason = "OwnerDeleting"
	RootMoverNeeded  Reason = "RootMoverNeeded"
	ProbeFailed      Reason = "ProbeFailed"
	ScalerActive     Reason = "ScalerActive"
	SiblingAwake     Reason = "SiblingAwake"
	DeletesClaims    Reason = "DeletesClaims"
)

// The operation came to an end that nobody wanted.
const (
	CopyFailed       Reason = "CopyFailed"
	DeadlineExceeded Reason = "DeadlineExceeded"
	StartedByOthers  Reason = "StartedByOthers"
	ClaimLost        Reason = "ClaimLost"
	Aborted          Reason = "Aborted"
	Rejected         Reason = "Rejected"
	NotReady         Reason = "NotReady"
	SetReplaced      Reason = "SetReplaced"
	DeadLettered     Reason = "DeadLettered"
)

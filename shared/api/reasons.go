package api

// Reason is a CamelCase word for why a function did what it did: in the status, in Kubernetes Events, in logs.
type Reason string

// Nothing to do, or somebody else's turn.
const (
	SetGone Reason = "SetGone" // the StatefulSet does not exist
	// NamespaceLeaves: the namespace is being deleted, so that nothing is made in it any more.
	NamespaceLeaves Reason = "NamespaceLeaves"
	NotManaged      Reason = "NotManaged"     // it lacks the opt-in label
	NotRequested    Reason = "NotRequested"   // nobody asked for a resize
	UpToDate        Reason = "UpToDate"       // every claim is as asked for
	NotOurPhase     Reason = "NotOurPhase"    // another function has the operation
	AlreadyRefused  Reason = "AlreadyRefused" // the same request was refused or failed before, and nothing has changed
	InProgress      Reason = "InProgress"     // an operation runs already
	NotIdle         Reason = "NotIdle"        // there is a reason to be awake
	StaysAsleep     Reason = "StaysAsleep"    // there is none to wake it
	AtZeroAlready   Reason = "AtZeroAlready"  // somebody else has scaled it to zero, who wakes it too
	NothingFailed   Reason = "NothingFailed"  // a retry was asked for where nothing failed or was refused
)

// The operation moves on.
const (
	ResizeDetected   Reason = "ResizeDetected"
	OwnerPausing     Reason = "OwnerPausing"
	OwnerConsents    Reason = "OwnerConsents"
	OwnerResumed     Reason = "OwnerResumed"
	OwnerStays       Reason = "OwnerStays" // paused: the operation goes on, or a claim of the set is not whole
	ExpansionRunning Reason = "ExpansionRunning"
	ClaimsExpanded   Reason = "ClaimsExpanded"
	ReplicaRestarted Reason = "ReplicaRestarted" // its file system grows when it is mounted again
	Preparing        Reason = "Preparing"
	Quiescing        Reason = "Quiescing"
	GateClosed       Reason = "GateClosed"      // a member must not be stopped now; the message says why
	HookRunning      Reason = "HookRunning"     // the hook before or after a member runs
	Behind           Reason = "Behind"          // a member is ready on its new volumes, and has not caught up, as the member check says
	WarmCopyRunning  Reason = "WarmCopyRunning" // the first copy, while the set runs
	CopyRunning      Reason = "CopyRunning"
	MoverStalled     Reason = "MoverStalled" // a mover cannot go on; the message has the cause
	CopyVerified     Reason = "CopyVerified"
	CopyWarning      Reason = "CopyWarning" // a mover let something pass that users should know of
	SwitchRunning    Reason = "SwitchRunning"
	ClaimsSwitched   Reason = "ClaimsSwitched"
	WaitingForReady  Reason = "WaitingForReady"
	CleaningUp       Reason = "CleaningUp"
	ResizeCompleted  Reason = "ResizeCompleted"
	RollingBackNow   Reason = "RollingBack"
	VolumeReleased   Reason = "VolumeReleased"
	Retrying         Reason = "Retrying"
	SleepDecided     Reason = "SleepDecided"
	ActivityNoted    Reason = "ActivityNoted"
	ScalingDown      Reason = "ScalingDown"
	FellAsleep       Reason = "FellAsleep"
	WakingUp         Reason = "WakingUp"
	Awake            Reason = "Awake"
	RolloutRunning   Reason = "RolloutRunning"
	DependentAwake   Reason = "DependentAwake"
	DependencyFirst  Reason = "DependencyFirst"
)

// A cleanup moves on.
const (
	NothingToClean   Reason = "NothingToClean"   // no ordinal is left behind
	NoCleanup        Reason = "NoCleanup"        // the set has no cleanup pod template
	CleanupReady     Reason = "CleanupReady"     // the template is understood, the ordinals are accounted for
	VolumeOrphaned   Reason = "VolumeOrphaned"   // a volume whose operation has no set and no journal any more got its window
	ReplicasSeen     Reason = "ReplicasSeen"     // claims were found in use by the set's pods
	CleanupStarted   Reason = "CleanupStarted"   // a cleanup pod was made
	CleanupRunning   Reason = "CleanupRunning"   // a cleanup pod runs
	CleanupTriedOnce Reason = "CleanupTried"     // a cleanup pod failed, another one is made
	CleanupDone      Reason = "CleanupDone"      // it succeeded: the claims are deleted
	ClaimsDeleted    Reason = "ClaimsDeleted"    // the claims are deleted, the name is free again
	CleanupCompleted Reason = "CleanupCompleted" // nothing is left behind any more
	CleanupCanceled  Reason = "CleanupCanceled"  // somebody wants the replica back, or no cleanup any more
	ScaleUpWaits     Reason = "ScaleUpWaits"     // a replica is wanted whose ordinal is being cleaned up
	ReplicaEnding    Reason = "ReplicaEnding"    // the replica's pod is still there
	BackingOff       Reason = "BackingOff"       // the next cleanup pod comes later
	FinalizerAdded   Reason = "FinalizerAdded"   // the set will be held when it is deleted
	FinalizerRemoved Reason = "FinalizerRemoved" // the set may go
)

// A scaling moves on.
const (
	ScalerReady      Reason = "ScalerReady"      // the Scaler looks after the set, which has the count that is wanted
	CountAdopted     Reason = "CountAdopted"     // spec.replicas of a Scaler became the count that the set has
	CountContested   Reason = "CountContested"   // another client changes the count of the set again and again
	CountReverted    Reason = "CountReverted"    // another client's count was put back, since a Scaler scales the set
	ScalingStarted   Reason = "ScalingStarted"   // the hook before the change is next
	CountChanged     Reason = "CountChanged"     // the set has the new count
	MembersReady     Reason = "MembersReady"     // as many as wanted are ready; the hook after the change is next
	ScalingCompleted Reason = "ScalingCompleted" // the count is as wanted, and all hooks have run
	ScalerGone       Reason = "ScalerGone"       // the Scaler was deleted; the set stays as it is
	HookEnded        Reason = "HookEnded"        // the Job of a hook that has ended is deleted
	StatusUpdated    Reason = "StatusUpdated"    // the status of a Scaler tells what there is
	CountFixed       Reason = "CountFixed"       // spec.replicas of a Scaler became the count of its mode fixed
	AutoscalerKept   Reason = "AutoscalerKept"   // the autoscaler of a Scaler was made, changed back or deleted
	AutoscalerReady  Reason = "AutoscalerReady"  // a Scaler has its autoscaler
	HookRequested    Reason = "HookRequested"    // a function of the user's was asked to run the hook
	SetPaused        Reason = "Paused"           // the set has no members because its Scaler is paused
)

// The volumes of a set grow by themselves.
const (
	VolumesGrow Reason = "VolumesGrow" // a volume is nearly full; a resize of all claims of its template was asked for
	EnoughFree  Reason = "EnoughFree"  // no volume is nearly full
	// FileSystemWaits: the volume has grown, and a pod has to be restarted so that its file system does.
	FileSystemWaits Reason = "FileSystemWaits"
	GrowthPaused    Reason = "GrowthPaused"  // the time between two growths is not over, or an expansion is under way
	NoGrowth        Reason = "NoGrowth"      // the set does not ask for growth
	GrowthLimit     Reason = "GrowthLimit"   // a volume is nearly full, and as large as it may get
	GrowthBlocked   Reason = "GrowthBlocked" // a volume is nearly full, and something keeps it from growing
	UsageUnknown    Reason = "UsageUnknown"  // how full the volumes are is not known
	GrowInvalid     Reason = "GrowInvalid"   // the rules for growth, or what Drydock remembers of it, cannot be read
)

// A Scaler cannot scale its set.
const (
	TargetMissing  Reason = "TargetMissing"  // there is no StatefulSet of the name
	TargetDeleting Reason = "TargetDeleting" // the StatefulSet is being deleted
	TargetReplaced Reason = "TargetReplaced" // another StatefulSet has the name now
	TargetTaken    Reason = "TargetTaken"    // another Scaler scales the set
	// AutoscalerTaken: a HorizontalPodAutoscaler has the name of the Scaler, and does not belong to it.
	AutoscalerTaken Reason = "AutoscalerTaken"
	// AutoscalerRefused: the API server does not take the Scaler's HorizontalPodAutoscaler.
	AutoscalerRefused Reason = "AutoscalerRefused"
	// PauseDeletesClaims: whenScaled of the set is Delete, so that a pause would delete its claims.
	PauseDeletesClaims Reason = "PauseDeletesClaims"
)

// The request cannot be carried out.
const (
	RequestInvalid   Reason = "RequestInvalid"
	StatusInvalid    Reason = "StatusInvalid"
	LinkInvalid      Reason = "LinkInvalid"
	NoTemplates      Reason = "NoTemplates"
	UnknownTemplate  Reason = "UnknownTemplate"
	UnknownClass     Reason = "UnknownClass"
	PodsLackVolume   Reason = "PodsLackVolume"  // a template cannot be added while pods exist: they would lack its volume
	TemplateMounted  Reason = "TemplateMounted" // the pod template does not fit the templates that are asked for
	MethodUnknown    Reason = "MethodUnknown"
	StrategyUnknown  Reason = "StrategyUnknown" // how members are to be stopped cannot be read
	CheckInvalid     Reason = "CheckInvalid"    // how members are asked whether they have caught up cannot be read
	HookInvalid      Reason = "HookInvalid"     // what is to run before or after a member cannot be read
	ShrinkRefused    Reason = "ShrinkRefused"
	MoverInvalid     Reason = "MoverInvalid"     // the options for movers cannot be read
	ExpandImpossible Reason = "ExpandImpossible" // the method was asked for, and a claim cannot grow on its volume
	ForeignClaim     Reason = "ForeignClaim"
	ForeignConsumer  Reason = "ForeignConsumer"
	ClaimNotBound    Reason = "ClaimNotBound"
	ClaimBusy        Reason = "ClaimBusy"
	ForeignFinalizer Reason = "ForeignFinalizer" // a claim or the set could not be replaced: another controller's finalizer holds it
	TopologyConflict Reason = "TopologyConflict" // no node can reach the old volume and the new one
	NameTooLong      Reason = "NameTooLong"
	QuotaExceeded    Reason = "QuotaExceeded"
	TooManyRetained  Reason = "TooManyRetained" // old volumes of earlier resizes have to go first
	LimitExceeded    Reason = "LimitExceeded"
	DocumentTooLarge Reason = "DocumentTooLarge" // annotations leave no room for what Drydock has to write beside them
	TooManyClaims    Reason = "TooManyClaims"
	OwnerNotPausable Reason = "OwnerNotPausable"
	// RollbackImpossible: the operation whose volumes are to come back has left none behind that is still kept.
	RollbackImpossible Reason = "RollbackImpossible"
	OwnerDeleting      Reason = "OwnerDeleting"
	RootMoverNeeded    Reason = "RootMoverNeeded"
	NodeAccessDenied   Reason = "NodeAccessDenied"   // the set's pods get hold of their node, and the namespace does not allow to create it again
	RuntimeUnsupported Reason = "RuntimeUnsupported" // pods of the set mount their volumes where no mover on the node sees what they write
	ProbeFailed        Reason = "ProbeFailed"
	ScalerActive       Reason = "ScalerActive"
	SiblingAwake       Reason = "SiblingAwake"
	DeletesClaims      Reason = "DeletesClaims"
	TemplateInvalid    Reason = "TemplateInvalid"
	ClaimUnbound       Reason = "ClaimUnbound" // a claim of an unwanted ordinal is bound to no volume; looked at again with each tick
	NeverUsed          Reason = "NeverUsed"    // a claim that no pod of the set was seen to use
	NameTaken          Reason = "NameTaken"    // the replica's name is somebody else's
	ClaimMissing       Reason = "ClaimMissing" // an ordinal lacks one of its claims
)

// The operation came to an end that nobody wanted.
const (
	CopyFailed           Reason = "CopyFailed"
	NotConverged         Reason = "NotConverged"         // the application writes faster than the data can be copied
	ExpandInfeasible     Reason = "ExpandInfeasible"     // the storage cannot give a volume what its claim asks for
	AttributesInfeasible Reason = "AttributesInfeasible" // the storage cannot give a volume the VolumeAttributesClass that its claim names
	DeadlineExceeded     Reason = "DeadlineExceeded"
	StartedByOthers      Reason = "StartedByOthers"
	ClaimLost            Reason = "ClaimLost"
	NoCapacity           Reason = "NoCapacity"     // the storage says that it has no room for a new volume; only a plan finds it
	NotProvisioned       Reason = "NotProvisioned" // Kubernetes bound, or would bind, an existing volume to a temporary claim
	Aborted              Reason = "Aborted"
	Rejected             Reason = "Rejected"
	NotReady             Reason = "NotReady"
	HookFailed           Reason = "HookFailed" // the hook before or after a member
	SetReplaced          Reason = "SetReplaced"
	SetHeld              Reason = "SetHeld"         // a finalizer that is not Drydock's keeps the deleted StatefulSet
	RecreateRefused      Reason = "RecreateRefused" // the API server would not create the StatefulSet again
	UndoStuck            Reason = "UndoStuck"       // the operation of a lost StatefulSet cannot be undone yet
	DeadLettered         Reason = "DeadLettered"
	OrderRefused         Reason = "OrderRefused" // nobody showed that the sender of an order may patch the set; nothing is written
	CleanupFailed        Reason = "CleanupFailed"
	OwnerAway            Reason = "OwnerAway"    // the operator did not start its set in time, so Drydock did
	StartRefused         Reason = "StartRefused" // the API server refuses the replicas of a set that wakes; they are tried again
)

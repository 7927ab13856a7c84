package api

// Reason is a CamelCase word for why a function did what it did. It is stored in the status and appears in Kubernetes Events and logs.
type Reason string

// Nothing to do, or another function's turn.
const (
	// SetGone: The StatefulSet does not exist.
	SetGone Reason = "SetGone"
	// NamespaceTerminating: The namespace is being deleted, so Drydock creates nothing in it.
	NamespaceTerminating Reason = "NamespaceLeaves"
	// NotManaged: The StatefulSet lacks the opt-in label drydock.dev/managed=true.
	NotManaged Reason = "NotManaged"
	// NotRequested: The StatefulSet has no resize request.
	NotRequested Reason = "NotRequested"
	// UpToDate: Every claim already has the requested size, class and access modes.
	UpToDate Reason = "UpToDate"
	// NotOurPhase: Another function works in the present phase of the operation.
	NotOurPhase Reason = "NotOurPhase"
	// AlreadyRefused: The same request was refused or failed before, and nothing relevant has changed since.
	AlreadyRefused Reason = "AlreadyRefused"
	// InProgress: Another operation already runs on the StatefulSet.
	InProgress Reason = "InProgress"
	// NotIdle: The StatefulSet has a reason to be awake.
	NotIdle Reason = "NotIdle"
	// StaysAsleep: The StatefulSet has no reason to wake up.
	StaysAsleep Reason = "StaysAsleep"
	// AtZeroAlready: Another process scaled the StatefulSet to zero and has to scale it up again.
	AtZeroAlready Reason = "AtZeroAlready"
	// NothingFailed: A retry was requested, but no operation failed or was refused.
	NothingFailed Reason = "NothingFailed"
)

// An operation makes progress.
const (
	// ResizeDetected: A resize was accepted and begins.
	ResizeDetected Reason = "ResizeDetected"
	// PlanDelayed: No owner was asked within DRYDOCK_PLAN_TIMEOUT, because the event was late or an owner could not be read. The time limit
	// begins once more. After that, the resize fails.
	PlanDelayed Reason = "PlanDelayed"
	// TurnWaits: The movers of other resizes have reached the limit (DRYDOCK_MOVERS), so the resize waits. It begins by itself, without a
	// time limit. The ConfigMap drydock-turns lists the resizes with movers, and those that wait.
	TurnWaits Reason = "TurnWaits"
	// TurnBegins: Enough movers are free again, so the resize continues.
	TurnBegins Reason = "TurnBegins"
	// TurnEnds: A resize is over, or waits for an approval or a window. The next one may begin.
	TurnEnds Reason = "TurnEnds"
	// OwnerPausing: The operator that owns the StatefulSet is being paused.
	OwnerPausing Reason = "OwnerPausing"
	// OwnerConsents: The owner of the StatefulSet is paused, or the StatefulSet has no owner to pause.
	OwnerConsents Reason = "OwnerConsents"
	// OwnerResumed: The owner of the StatefulSet is no longer paused.
	OwnerResumed Reason = "OwnerResumed"
	// OptInLost: The StatefulSet has lost its opt-in label, which its operator removes. The label belongs on the custom resource.
	OptInLost Reason = "OptInLost"
	// OwnerUpdated: The owner of the StatefulSet got the size and class of the claims after a resize.
	OwnerUpdated Reason = "OwnerUpdated"
	// OwnerStays: The pause of the owner has not ended. The message says why Drydock does not end it: it cannot, or the owner says another
	// size than the claims after a resize. Without a message, an operation still needs the pause.
	OwnerStays Reason = "OwnerStays"
	// ExpansionRunning: Volumes are growing in place.
	ExpansionRunning Reason = "ExpansionRunning"
	// ClaimsExpanded: The claims have grown in place.
	ClaimsExpanded Reason = "ClaimsExpanded"
	// MemberRestarted: A pod was restarted, because its file system grows only when it is mounted.
	MemberRestarted Reason = "MemberRestarted"
	// Preparing: Drydock is creating the objects that the copies need.
	Preparing Reason = "Preparing"
	// Quiescing: A pod is being stopped and held.
	Quiescing Reason = "Quiescing"
	// GateClosed: A member must not be stopped now; the message says why.
	GateClosed Reason = "GateClosed"
	// HookRunning: A hook of a resize or of a scaling is running.
	HookRunning Reason = "HookRunning"
	// Behind: A member is ready on its new volumes, but the member check says that it has not caught up.
	Behind Reason = "Behind"
	// FirstPassRunning: The first passes of the copy run beside the running member.
	FirstPassRunning Reason = "FirstPassRunning"
	// NoFirstPass: A mover cannot copy beside a running pod; the message has the cause and the next way. If the pod is copied only while
	// it is stopped, its stop lasts as long as the whole copy.
	NoFirstPass Reason = "NoFirstPass"
	// NoAttachSlot: A mover cannot copy beside a running pod, because the node cannot attach another volume. The pod is copied while it is
	// stopped, and its mover may run on another node.
	NoAttachSlot Reason = "NoAttachSlot"
	// CopyRunning: The claims are being copied.
	CopyRunning Reason = "CopyRunning"
	// MoverStalled: A mover cannot continue; the message has the cause.
	MoverStalled Reason = "MoverStalled"
	// CopyVerified: The copies are complete and verified.
	CopyVerified Reason = "CopyVerified"
	// CopyWarning: A mover reports something that the user should know; the message has the details.
	CopyWarning Reason = "CopyWarning"
	// SwapRunning: The claims are getting their new volumes.
	SwapRunning Reason = "SwapRunning"
	// ClaimsSwapped: The claims have their new volumes.
	ClaimsSwapped Reason = "ClaimsSwapped"
	// WaitingForReady: Drydock is waiting until the started pods are ready.
	WaitingForReady Reason = "WaitingForReady"
	// CleaningUp: An object of an earlier operation is being removed.
	CleaningUp Reason = "CleaningUp"
	// ResizeCompleted: The resize is complete.
	ResizeCompleted Reason = "ResizeCompleted"
	// RollingBack: The claims are getting their former volumes back.
	RollingBack Reason = "RollingBack"
	// RetentionEnded: The retention of an old volume ended. The volume has its reclaim policy back, or stays Retain if a volume in use has
	// the same storage.
	RetentionEnded Reason = "RetentionEnded"
	// Retrying: A failed operation is being retried.
	Retrying Reason = "Retrying"
	// SleepDecided: The StatefulSet will go to sleep.
	SleepDecided Reason = "SleepDecided"
	// ActivityNoted: The time of the last activity was recorded.
	ActivityNoted Reason = "ActivityNoted"
	// ScalingDown: The StatefulSet is being scaled to zero.
	ScalingDown Reason = "ScalingDown"
	// FellAsleep: The StatefulSet has no replicas left and is asleep.
	FellAsleep Reason = "FellAsleep"
	// WakingUp: The StatefulSet is getting its replicas back.
	WakingUp Reason = "WakingUp"
	// Awake: The StatefulSet is awake and ready.
	Awake Reason = "Awake"
	// RolloutRunning: A rolling update of the StatefulSet is not complete.
	RolloutRunning Reason = "RolloutRunning"
	// DependentAwake: A StatefulSet that depends on this one is not asleep yet.
	DependentAwake Reason = "DependentAwake"
	// DependencyFirst: The StatefulSet waits until its dependencies are ready.
	DependencyFirst Reason = "DependencyFirst"
)

// A cleanup makes progress.
const (
	// NothingToClean: No removed member has left claims behind.
	NothingToClean Reason = "NothingToClean"
	// NoCleanup: The StatefulSet has no cleanup pod template.
	NoCleanup Reason = "NoCleanup"
	// CleanupReady: The cleanup pod template is valid, and the ordinals are accounted for.
	CleanupReady Reason = "CleanupReady"
	// VolumeOrphaned: An old volume lost its StatefulSet and its journal, so its retention starts now.
	VolumeOrphaned Reason = "VolumeOrphaned"
	// MembersCounted: The ledger of the StatefulSet has changed: which pods it has, and which are to be removed.
	MembersCounted Reason = "MembersCounted"
	// PodsExpected: Pods that the StatefulSet does not request now are expected back, so their claims are kept.
	PodsExpected Reason = "PodsExpected"
	// MembersSeen: Pods of the StatefulSet were seen using claims, so these claims may be cleaned up later.
	MembersSeen Reason = "MembersSeen"
	// CleanupStarted: A cleanup pod was created.
	CleanupStarted Reason = "CleanupStarted"
	// CleanupRunning: A cleanup pod is running.
	CleanupRunning Reason = "CleanupRunning"
	// CleanupTried: A cleanup pod failed, and another one will be created.
	CleanupTried Reason = "CleanupTried"
	// CleanupDone: A cleanup pod succeeded, so its claims are being deleted.
	CleanupDone Reason = "CleanupDone"
	// ClaimsDeleted: The claims are deleted, and the member's name is free again.
	ClaimsDeleted Reason = "ClaimsDeleted"
	// CleanupCompleted: No claims of removed members are left.
	CleanupCompleted Reason = "CleanupCompleted"
	// CleanupCanceled: The cleanup was canceled, because the member is needed again or the cleanup is no longer requested.
	CleanupCanceled Reason = "CleanupCanceled"
	// ScaleUpWaits: A new member waits for the cleanup of its ordinal.
	ScaleUpWaits Reason = "ScaleUpWaits"
	// MemberEnding: The pod of the removed member still exists.
	MemberEnding Reason = "MemberEnding"
	// BackingOff: The next cleanup pod will be created later.
	BackingOff Reason = "BackingOff"
	// FinalizerAdded: The StatefulSet got a finalizer, so that its ordinals are cleaned up before it is deleted.
	FinalizerAdded Reason = "FinalizerAdded"
	// FinalizerRemoved: The StatefulSet lost its finalizer and can be deleted.
	FinalizerRemoved Reason = "FinalizerRemoved"
)

// A scaling makes progress.
const (
	// ScalerReady: The Scaler manages the StatefulSet, which has the requested count.
	ScalerReady Reason = "ScalerReady"
	// CountAdopted: The Scaler took over the count of the StatefulSet as its spec.replicas.
	CountAdopted Reason = "CountAdopted"
	// CountContested: Another client keeps changing the count of the StatefulSet.
	CountContested Reason = "CountContested"
	// CountReverted: The Scaler reverted another client's change of the count.
	CountReverted Reason = "CountReverted"
	// ScalingStarted: A scaling began; the hook before the change is next.
	ScalingStarted Reason = "ScalingStarted"
	// CountChanged: The StatefulSet has the new count.
	CountChanged Reason = "CountChanged"
	// MembersReady: All requested members are ready; the hook after the change is next.
	MembersReady Reason = "MembersReady"
	// ScalingCompleted: The StatefulSet has the requested count, and all hooks have run.
	ScalingCompleted Reason = "ScalingCompleted"
	// ScalerGone: The Scaler was deleted; the StatefulSet keeps its count.
	ScalerGone Reason = "ScalerGone"
	// HookEnded: The Job of a finished hook was deleted.
	HookEnded Reason = "HookEnded"
	// StatusUpdated: A record or the status of a Scaler was brought up to date.
	StatusUpdated Reason = "StatusUpdated"
	// CountFixed: The Scaler set its spec.replicas to the count of its mode fixed.
	CountFixed Reason = "CountFixed"
	// AutoscalerKept: The autoscaler of the Scaler was created, corrected or deleted.
	AutoscalerKept Reason = "AutoscalerKept"
	// AutoscalerReady: The Scaler has its autoscaler.
	AutoscalerReady Reason = "AutoscalerReady"
	// HookRequested: A user's function was asked to run the hook.
	HookRequested Reason = "HookRequested"
	// SetPaused: The Scaler of the StatefulSet is paused.
	SetPaused Reason = "Paused"
)

// The volumes of a set grow automatically.
const (
	// VolumesGrow: A volume is nearly full, so all claims of its template will grow.
	VolumesGrow Reason = "VolumesGrow"
	// EnoughFree: No volume is nearly full.
	EnoughFree Reason = "EnoughFree"
	// FileSystemWaits: The volume has grown, but its file system grows only when the pod is restarted.
	FileSystemWaits Reason = "FileSystemWaits"
	// GrowthPaused: The pause between two growths is not over, or an expansion is running.
	GrowthPaused Reason = "GrowthPaused"
	// NoGrowth: The StatefulSet does not request growth.
	NoGrowth Reason = "NoGrowth"
	// GrowthLimit: A volume is nearly full and already has its largest allowed size.
	GrowthLimit Reason = "GrowthLimit"
	// GrowthBlocked: A volume is nearly full but cannot grow; the message says why.
	GrowthBlocked Reason = "GrowthBlocked"
	// UsageUnknown: The usage of the volumes is unknown.
	UsageUnknown Reason = "UsageUnknown"
	// GrowInvalid: The rules for growth, or the stored state of it, cannot be read.
	GrowInvalid Reason = "GrowInvalid"
)

// A Scaler cannot scale its set.
const (
	// TargetMissing: No StatefulSet has the name of the target.
	TargetMissing Reason = "TargetMissing"
	// TargetDeleting: The StatefulSet is being deleted.
	TargetDeleting Reason = "TargetDeleting"
	// TargetReplaced: The target's name now belongs to another StatefulSet.
	TargetReplaced Reason = "TargetReplaced"
	// TargetTaken: Another Scaler scales the StatefulSet.
	TargetTaken Reason = "TargetTaken"
	// AutoscalerTaken: A HorizontalPodAutoscaler with the name of the Scaler belongs to another owner.
	AutoscalerTaken Reason = "AutoscalerTaken"
	// AutoscalerRefused: The API server rejects the HorizontalPodAutoscaler of the Scaler.
	AutoscalerRefused Reason = "AutoscalerRefused"
)

// A request cannot be carried out.
const (
	// RequestInvalid: The request cannot be read, or lacks a value.
	RequestInvalid Reason = "RequestInvalid"
	// CauseGone: A sleep was refused or failed, and the cause is gone: the annotations are valid again, the activity probe answers again,
	// the owner consents, or the StatefulSet is ready at last.
	CauseGone Reason = "CauseGone"
	// StatusInvalid: The stored record of an operation cannot be read.
	StatusInvalid Reason = "StatusInvalid"
	// LinkInvalid: The annotation or journal that connects an object with its operation cannot be read.
	LinkInvalid Reason = "LinkInvalid"
	// NoTemplates: The StatefulSet has no volumeClaimTemplates.
	NoTemplates Reason = "NoTemplates"
	// UnknownTemplate: The StatefulSet has no volumeClaimTemplate of that name.
	UnknownTemplate Reason = "UnknownTemplate"
	// UnknownClass: The StorageClass or VolumeAttributesClass does not exist.
	UnknownClass Reason = "UnknownClass"
	// PodsLackVolume: A volumeClaimTemplate cannot be added while pods exist, because they would lack its volume.
	PodsLackVolume Reason = "PodsLackVolume"
	// TemplateMounted: The pod template does not fit the requested volumeClaimTemplates.
	TemplateMounted Reason = "TemplateMounted"
	// MethodUnknown: The annotation drydock.dev/resize-method has an unknown value.
	MethodUnknown Reason = "MethodUnknown"
	// StrategyUnknown: The annotation resize-strategy, cutover, max-stop or first-pass cannot be read.
	StrategyUnknown Reason = "StrategyUnknown"
	// CheckInvalid: The annotation drydock.dev/member-check cannot be read.
	CheckInvalid Reason = "CheckInvalid"
	// HookInvalid: A hook of a resize or of a Scaler cannot be used.
	HookInvalid Reason = "HookInvalid"
	// ShrinkRefused: A raw block volume cannot be shrunk.
	ShrinkRefused Reason = "ShrinkRefused"
	// MoverInvalid: The options for movers cannot be read.
	MoverInvalid Reason = "MoverInvalid"
	// ExpandImpossible: The method allows no copy, but a claim cannot grow in place.
	ExpandImpossible Reason = "ExpandImpossible"
	// ForeignClaim: A claim has the name of a member's claim, but lacks the labels of the StatefulSet.
	ForeignClaim Reason = "ForeignClaim"
	// ForeignConsumer: A pod that does not belong to the StatefulSet uses one of its claims.
	ForeignConsumer Reason = "ForeignConsumer"
	// ClaimNotBound: A claim is not bound to an existing volume.
	ClaimNotBound Reason = "ClaimNotBound"
	// ClaimBusy: A claim is in use, is being deleted, or is changing its VolumeAttributesClass. Or the storage still grows its volume to a
	// larger size than the requested one.
	ClaimBusy Reason = "ClaimBusy"
	// ClaimsGrown: Another client has made claims larger again after they got smaller volumes.
	ClaimsGrown Reason = "ClaimsGrown"
	// ForeignFinalizer: Another controller's finalizer would keep a claim or the StatefulSet from being replaced.
	ForeignFinalizer Reason = "ForeignFinalizer"
	// TopologyConflict: No node can reach all volumes that a member needs, or the pods do not run where the volumes are.
	TopologyConflict Reason = "TopologyConflict"
	// NameTooLong: The name of the StatefulSet is too long for its pods to start again.
	NameTooLong Reason = "NameTooLong"
	// QuotaExceeded: A ResourceQuota has no room for the claims or the movers.
	QuotaExceeded Reason = "QuotaExceeded"
	// TooManyRetained: A claim has too many old volumes from earlier resizes.
	TooManyRetained Reason = "TooManyRetained"
	// LimitExceeded: A LimitRange forbids the requested size.
	LimitExceeded Reason = "LimitExceeded"
	// RecordTooLarge: The annotations of an object leave no room for the annotations of Drydock.
	RecordTooLarge Reason = "RecordTooLarge"
	// TooManyClaims: The request affects too many claims, or the manifest of the StatefulSet is too large.
	TooManyClaims Reason = "TooManyClaims"
	// OwnerNotPausable: Drydock cannot pause the operator that owns the StatefulSet.
	OwnerNotPausable Reason = "OwnerNotPausable"
	// RequestOnOwner: The resize request stands on the custom resource that owns the StatefulSet, and its operator copies it.
	RequestOnOwner Reason = "RequestOnOwner"
	// RollbackImpossible: An old volume that the rollback needs is missing or ambiguous, or does not fit its claim.
	RollbackImpossible Reason = "RollbackImpossible"
	// LeftToOwner: Only the StatefulSet itself differs from the request, and its operator, which is not paused, makes it.
	LeftToOwner Reason = "LeftToOwner"
	// OwnerDeleting: The custom resource that owns the StatefulSet is being deleted.
	OwnerDeleting Reason = "OwnerDeleting"
	// RootMoverNeeded: The copy needs a mover that runs as root, which the namespace does not allow.
	RootMoverNeeded Reason = "RootMoverNeeded"
	// NodeAccessDenied: The pods have access to their node, and the namespace does not allow Drydock to recreate them.
	NodeAccessDenied Reason = "NodeAccessDenied"
	// RuntimeUnsupported: The pods mount their volumes in a way that hides their writes from movers on the same node.
	RuntimeUnsupported Reason = "RuntimeUnsupported"
	// ProbeFailed: An activity probe failed, so the StatefulSet stays awake.
	ProbeFailed Reason = "ProbeFailed"
	// ScalerActive: An autoscaler would scale the StatefulSet during the operation.
	ScalerActive Reason = "ScalerActive"
	// SiblingAwake: Another StatefulSet of the same owner is awake or not ready to stop.
	SiblingAwake Reason = "SiblingAwake"
	// DeletesClaims: The claim retention policy of the StatefulSet would delete claims that the operation needs.
	DeletesClaims Reason = "DeletesClaims"
	// TemplateInvalid: The cleanup pod template, or a setting beside it, is invalid.
	TemplateInvalid Reason = "TemplateInvalid"
	// ClaimUnbound: A claim of a removed member is bound to no volume, so no pod has used it.
	ClaimUnbound Reason = "ClaimUnbound"
	// NeverUsed: No pod of the StatefulSet was seen using the claim.
	NeverUsed Reason = "NeverUsed"
	// NameTaken: An object of another client has the name of a member's pod, or of the Job of a hook.
	NameTaken Reason = "NameTaken"
	// ClaimMissing: An ordinal lacks one of its claims.
	ClaimMissing Reason = "ClaimMissing"
)

// An operation failed, or something needs attention.
const (
	// CopyFailed: A mover failed or could not continue.
	CopyFailed Reason = "CopyFailed"
	// NotConverged: The application writes faster than its data can be copied.
	NotConverged Reason = "NotConverged"
	// ExpandInfeasible: The storage cannot give a volume the requested size.
	ExpandInfeasible Reason = "ExpandInfeasible"
	// AttributesInfeasible: The storage cannot give a volume the requested VolumeAttributesClass.
	AttributesInfeasible Reason = "AttributesInfeasible"
	// DeadlineExceeded: A phase of the operation took longer than its deadline.
	DeadlineExceeded Reason = "DeadlineExceeded"
	// StartedByOthers: Members that Drydock had stopped were started again, by another process or by Drydock; the message has the cause.
	StartedByOthers Reason = "StartedByOthers"
	// ClaimLost: A claim was deleted or replaced during the operation.
	ClaimLost Reason = "ClaimLost"
	// ClaimEnlarged: During the operation, a claim was enlarged to more than its copy has.
	ClaimEnlarged Reason = "ClaimEnlarged"
	// NoCapacity: The storage reports no room for a new volume; only a plan checks this.
	NoCapacity Reason = "NoCapacity"
	// NotProvisioned: No separate volume was, or would be, provisioned for the copy.
	NotProvisioned Reason = "NotProvisioned"
	// Aborted: The user aborted the operation.
	Aborted Reason = "Aborted"
	// Rejected: The API server rejects an object that the operation needs.
	Rejected Reason = "Rejected"
	// NotReady: Members were not started, were not ready, or had not caught up in time.
	NotReady Reason = "NotReady"
	// HookFailed: A hook of a resize or of a scaling failed.
	HookFailed Reason = "HookFailed"
	// SetReplaced: The StatefulSet was deleted or replaced during the operation.
	SetReplaced Reason = "SetReplaced"
	// SetHeld: A finalizer of another controller keeps the deleted StatefulSet.
	SetHeld Reason = "SetHeld"
	// RecreateRefused: The API server refused to create the StatefulSet again.
	RecreateRefused Reason = "RecreateRefused"
	// UndoStuck: The operation of a lost StatefulSet cannot be undone yet.
	UndoStuck Reason = "UndoStuck"
	// DeadLettered: No function accepted an event about the StatefulSet.
	DeadLettered Reason = "DeadLettered"
	// OrderRefused: The sender of an order did not prove the right to patch the StatefulSet, so nothing was written.
	OrderRefused Reason = "OrderRefused"
	// UnknownSource: The data of an undelivered source event does not have the UID of the StatefulSet, so nothing was written. Its sender may
	// never have seen the StatefulSet.
	UnknownSource Reason = "UnknownSource"
	// CleanupFailed: The cleanup of an ordinal failed, so its claims are kept.
	CleanupFailed Reason = "CleanupFailed"
	// OwnerAway: The operator did not start its StatefulSet in time, so Drydock started it.
	OwnerAway Reason = "OwnerAway"
	// StartRefused: The API server rejects the replicas of a waking StatefulSet; Drydock keeps trying.
	StartRefused Reason = "StartRefused"
)

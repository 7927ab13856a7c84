// Package api is Drydock's public schema: the keys of the labels and annotations it reads and writes, and the
// documents stored in them. It is the only package with a compatibility promise: a document that a released version
// wrote loads for ever.
package api

// Prefix starts every label, annotation and finalizer of Drydock.
const Prefix = "drydock.dev/"

// HomeNamespace is the namespace of Drydock's own accounts and settings. The admission policies in config/policy know it.
const HomeNamespace = "drydock"

// What a user writes.
const (
	// ManagedLabel opts a StatefulSet in when it is "true". Nothing without it is touched; it is also the server-side
	// selector of the event source.
	ManagedLabel = Prefix + "managed"

	// ResizeAnnotation on a StatefulSet asks for new volumes; see ParseRequest for its format. It stays after the
	// operation: what it asks for is then what there is.
	ResizeAnnotation = Prefix + "resize"

	// ResizeAppliedAnnotation on a StatefulSet: the value of ResizeAnnotation that the policy of config/overlays/apply has made from an applied
	// manifest. While both are equal, an apply of the stored templates withdraws the request.
	ResizeAppliedAnnotation = Prefix + "resize-applied"

	// TemplatesAnnotation on a StatefulSet: which changes of its volumeClaimTemplates an apply may ask for: TemplatesGrow when absent,
	// TemplatesAny or TemplatesOff. Only the policies in config/overlays/apply read it.
	TemplatesAnnotation = Prefix + "templates"

	// ResizeMethodAnnotation on a StatefulSet: a Method, "auto" when absent.
	ResizeMethodAnnotation = Prefix + "resize-method"

	// ResizeParallelismAnnotation on a StatefulSet: how many members are copied at once, a whole number from 1.
	ResizeParallelismAnnotation = Prefix + "resize-parallelism"

	// StrategyAnnotation on a StatefulSet: a Strategy, "whole" when absent. How many members are stopped at once while their claims get
	// other volumes.
	StrategyAnnotation = Prefix + "resize-strategy"

	// CutoverAnnotation on a StatefulSet: when members may be stopped for a resize, "auto" when absent. "approve" waits for
	// ApproveAnnotation; anything else are windows of the week, see ParseWindows.
	CutoverAnnotation = Prefix + "cutover"

	// ApproveAnnotation on a StatefulSet: the id of the operation that may stop members now. Removed when the operation ends.
	ApproveAnnotation = Prefix + "approve"

	// MaxStopAnnotation on a StatefulSet: a Go duration, for how long a member may be stopped for its final pass. Members are stopped
	// only when the forecast is below it. DefaultMaxStop for rolling when absent, no limit for whole.
	MaxStopAnnotation = Prefix + "max-stop"

	// BandwidthAnnotation on a StatefulSet: a quantity, how many bytes a second a mover may read beside a running member. No limit
	// when absent.
	BandwidthAnnotation = Prefix + "resize-bandwidth"

	// PrimaryAnnotation on a StatefulSet: KEY=VALUE, the label of the pod that is the primary now. It is moved last.
	PrimaryAnnotation = Prefix + "primary-label"

	// MemberCheckAnnotation on a StatefulSet: how a member is asked whether it has caught up with the others, see MemberCheckOf in package
	// idle. restore asks before it stops a member of a rolling resize, and after each start.
	MemberCheckAnnotation = Prefix + "member-check"

	// BeforeMemberAnnotation and AfterMemberAnnotation on a StatefulSet: a PodTemplateSpec as JSON or YAML, the pod of the hook that runs
	// before a member is stopped for a resize, and after it has started. Package resources reads them.
	BeforeMemberAnnotation = Prefix + "before-member"
	AfterMemberAnnotation  = Prefix + "after-member"

	// MoverAnnotation on a StatefulSet: how the pods that copy its volumes run, as YAML or JSON, see resources.MoverOptions. What
	// it does not say, the namespace's ConfigMap MoverConfigMap says, then the workload's own pod template.
	MoverAnnotation = Prefix + "mover"

	// GrowAnnotation on a StatefulSet: when its volumes grow by themselves, see ParseGrow. Without it, the rules in the namespace's ConfigMap
	// GrowConfigMap count.
	GrowAnnotation = Prefix + "grow"

	// RetryAnnotation on a StatefulSet, any value: take up a failed operation again; on a Scaler, a failed scaling. Removed when taken.
	RetryAnnotation = Prefix + "retry"

	// RollbackAnnotation asks to put back the volumes that an operation has left behind; its value is the operation's id. What was
	// written since is on the volumes that are left behind then. It is removed when the rollback begins, or is refused.
	RollbackAnnotation = Prefix + "rollback"

	// AbortAnnotation on a StatefulSet, any value: end the operation. Members that were moved stay on their new volumes, the others start
	// on their old ones. Removed when the operation has ended.
	AbortAnnotation = Prefix + "abort"

	// OwnerPolicyAnnotation on a StatefulSet: an OwnerPolicy, "pause" when absent.
	OwnerPolicyAnnotation = Prefix + "owner-policy"

	// PausedAnnotation on a StatefulSet, "true": the set sleeps until it is removed.
	PausedAnnotation = Prefix + "paused"

	// IdleTimeoutAnnotation on a StatefulSet: a Go duration. The set sleeps when nothing was active for so long. Without it
	// no clock puts the set to sleep.
	IdleTimeoutAnnotation = Prefix + "idle-timeout"

	// LastActivityAnnotation on a StatefulSet: RFC 3339, when somebody last used the set. Events only move it later.
	LastActivityAnnotation = Prefix + "last-activity"

	// SleepRequestedAnnotation on a StatefulSet: RFC 3339, puts the set and its group to sleep although their last activity is younger
	// than the idle timeout. An activity at or after that time counts again; a time to come has no effect yet.
	SleepRequestedAnnotation = Prefix + "sleep-requested"

	// AwakeUntilAnnotation on a StatefulSet: RFC 3339, the set is awake before it. Events only move it later.
	AwakeUntilAnnotation = Prefix + "awake-until"

	// KeepWarmAnnotation on a StatefulSet: windows of the week in which the set is awake, see ParseWindows.
	KeepWarmAnnotation = Prefix + "keep-warm"

	// MinUptimeAnnotation on a StatefulSet: a Go duration. The set stays awake for so long once it is ready.
	MinUptimeAnnotation = Prefix + "min-uptime"

	// GroupLabel on StatefulSets of a namespace: those with the same value wake and sleep together. It is a label so that
	// the API server can select by it.
	GroupLabel = Prefix + "group"

	// DependsOnAnnotation on a StatefulSet of a group: names of other sets of it, separated by commas. They are ready
	// before this one starts, and stop after it.
	DependsOnAnnotation = Prefix + "depends-on"

	// ActivityProbeAnnotation on a StatefulSet: how to find out at the end of the timeout whether somebody uses the set,
	// see ParseProbe.
	ActivityProbeAnnotation = Prefix + "activity-probe"

	// WakeReplicasAnnotation on a StatefulSet: how many replicas a set gets that sleeps without Drydock having put it to
	// sleep. Without it such a set stays at zero.
	WakeReplicasAnnotation = Prefix + "wake-replicas"

	// WakeReadyAnnotation on a StatefulSet: how many replicas have to be ready before a set that wakes counts as awake, "all" (the
	// default), "first" or a count. idle-timeout and the wake gateway read it.
	WakeReadyAnnotation = Prefix + "wake-ready"

	// CleanupTemplateAnnotation on a StatefulSet: a PodTemplateSpec as JSON or YAML, the pod that is run on what a scale-down
	// leaves behind. Package cleanup reads it.
	CleanupTemplateAnnotation = Prefix + "cleanup-pod-template"

	// OlderCleanupTemplateAnnotation means the same where CleanupTemplateAnnotation is absent: it is the key of the
	// statefulset-scaledown-controller.
	OlderCleanupTemplateAnnotation = "statefulsets.kubernetes.io/scaledown-pod-template"

	// CleanupOnScaleUpAnnotation on a StatefulSet: an OnScaleUp, "wait" when absent.
	CleanupOnScaleUpAnnotation = Prefix + "cleanup-on-scale-up"

	// CleanupOnDeleteAnnotation on a StatefulSet, "true": when the set is deleted, every ordinal is cleaned up before it goes.
	CleanupOnDeleteAnnotation = Prefix + "cleanup-on-delete"

	// NodeAccessLabel on a Namespace, value "allow": Drydock may replace StatefulSets there, and run cleanup pods, whose pods get hold of
	// their node by hostPath, host namespaces or privileged containers. config/policy refuses that without it.
	NodeAccessLabel = Prefix + "node-access"

	// RootMoverLabel on a Namespace, value "allow": movers there run as root with the capabilities that file ownership
	// needs. Without it a mover runs as the workload's own user under the restricted Pod Security level.
	RootMoverLabel = Prefix + "root-mover"

	// PauseOwnersLabel on a Namespace, value "allow": pause-owner may pause and stop the custom resources there that control
	// opted-in StatefulSets. Without it each resource has to allow it with AllowAnnotation: whoever may write a StatefulSet can
	// name any resource of the namespace as its controller.
	PauseOwnersLabel = Prefix + "pause-owners"

	// AllowAnnotation on a custom resource, AllowPause: pause-owner may pause and stop this resource. A person with the right to
	// write the resource writes it, pause-owner reads it.
	AllowAnnotation = Prefix + "allow"
)

// What Drydock writes.
const (
	// StatusAnnotation on a StatefulSet: the record of its latest resize or rollback, a Resize. Stays after the operation ended.
	StatusAnnotation = Prefix + "status"

	// SleepAnnotation on a StatefulSet: the record of its latest sleep, a Sleep, from the decision to the end of the
	// wake-up. It is not in StatusAnnotation, so that a set that sleeps every night still tells how its resize has ended.
	SleepAnnotation = Prefix + "sleep"

	// CleanupAnnotation on a StatefulSet: the record of its latest cleanup, a Cleanup. Without an active cleanup it tells which
	// ordinals are accounted for, and that the template was understood.
	CleanupAnnotation = Prefix + "cleanup"

	// ScaleAnnotation on a StatefulSet: the record of its latest scaling by a Scaler, a Scale. Without an active scaling it tells which
	// Scaler scales the set, and which count that has last seen.
	ScaleAnnotation = Prefix + "scale"

	// GrowthAnnotation on a StatefulSet: what grow-volumes stores, a Growth. detect-resize reads from it whether grow-volumes has made the
	// request. Stays.
	GrowthAnnotation = Prefix + "growth"

	// ReplicaOfAnnotation on a claim: the UID of the StatefulSet of which a pod was seen that uses the claim. Only such a
	// claim is cleaned up. cleanup-pod writes it while the pod is there; whoever knows better may write it by hand.
	ReplicaOfAnnotation = Prefix + "replica-of"

	// DeadLettersAnnotation on a StatefulSet: the list of events about it that no function took, see Letter. dead-letter
	// writes it, people and `kubectl drydock redeliver` read it; no decision depends on it. A letter goes when it was
	// sent again, all of them when an operation succeeds.
	DeadLettersAnnotation = Prefix + "dead-letters"

	// OperationLabel on every claim, volume, Job, Pod and journal of a running operation, and on an old volume for its
	// window: the operation's id. It is the selector of the event source and of the sweep.
	OperationLabel = Prefix + "operation"

	// MemberLabel on the pod of a mover whose volume is provisioned where the pod goes: the name of the set's pod that is to follow
	// the volume. Rules of the set between its pods, as anti-affinity, hold between these movers. Gone with the pod.
	MemberLabel = Prefix + "member"

	// NamespaceLabel beside OperationLabel on volumes, which have no namespace: that of the set. A cluster may have very many
	// volumes with an operation's label, and what one set's operation costs must not depend on them.
	NamespaceLabel = Prefix + "namespace"

	// OperationAnnotation beside OperationLabel: the Link document.
	OperationAnnotation = Prefix + "operation"

	// ClaimManifestAnnotation on a volume that is reserved for a claim: the claim to create, as JSON. Written in the
	// same patch that reserves the volume, removed when the claim is bound.
	ClaimManifestAnnotation = Prefix + "claim"

	// ReclaimPolicyAnnotation on a volume that was set to Retain: the reclaim policy found there before. Removed when
	// the policy is put back.
	ReclaimPolicyAnnotation = Prefix + "reclaim-policy"

	// RetainedUntilAnnotation on an old volume: RFC 3339, when it may be given back to its reclaim policy.
	RetainedUntilAnnotation = Prefix + "retained-until"

	// RecreateAnnotation on a journal: the StatefulSet to create, as JSON, written before the present one is deleted. Its
	// metadata.uid and resourceVersion are the present one's, the only state that may be deleted for it.
	RecreateAnnotation = Prefix + "recreate"

	// SetMetadataAnnotation on a journal: the SetMetadata document, what restore writes on the set after its creation. Written in
	// the same patch as RecreateAnnotation; it stays until the journal goes.
	SetMetadataAnnotation = Prefix + "set-metadata"

	// UndoingSinceAnnotation on a journal whose set was lost: RFC 3339, when restore first had to wait while it undid the
	// operation. It goes with the journal.
	UndoingSinceAnnotation = Prefix + "undoing-since"

	// HookAnnotation on the pod of a hook of a scaling: the HookFacts, which its containers read in the file HookFile. It goes with the pod.
	HookAnnotation = Prefix + "hook"

	// HoldFinalizer on a pod of a set, or on the pod that locks the name of a member without one: the pod's object stays after the pod has
	// stopped, so that the StatefulSet controller makes no replacement. Put on before the pod is told to stop.
	HoldFinalizer = Prefix + "hold"

	// SwitchFinalizer on a claim that is being replaced: holds the claim in Terminating, where no new pod can start on
	// it, until the next volume is reserved for its name.
	SwitchFinalizer = Prefix + "switch"

	// CleanupFinalizer on a StatefulSet that is to be cleaned up when it is deleted: holds it until that is done. On a cleanup
	// pod: holds the replica's name, so that no replica starts on a claim which is about to be deleted.
	CleanupFinalizer = Prefix + "cleanup"

	// FinalizerLabel on a StatefulSet with the CleanupFinalizer, "cleanup": by it the sweep finds a set that has lost its
	// opt-in label and could not be deleted without Drydock. Written and removed in the same patch as the finalizer.
	FinalizerLabel = Prefix + "finalizer"

	// FieldManager names Drydock in managedFields.
	FieldManager = "drydock"
)

// MoverConfigMap is the name of the ConfigMap that says for a namespace what MoverAnnotation says for a set, under MoverKey.
const (
	MoverConfigMap = "drydock-mover"
	MoverKey       = "mover"
)

// GrowConfigMap is the ConfigMap with the rules of a namespace: under GrowKey, in the format of GrowAnnotation.
const (
	GrowConfigMap = "drydock-grow"
	GrowKey       = "grow"
)

// StatsAccount is the account in HomeNamespace that may read the statistics of kubelets, and nothing else. grow-volumes shows its token to
// kubelets, so that a node never gets the token of grow-volumes.
const StatsAccount = "volume-stats"

// FinalizerForCleanup is the value of FinalizerLabel.
const FinalizerForCleanup = "cleanup"

// AllowValue is the value of RootMoverLabel, NodeAccessLabel and PauseOwnersLabel that means yes, AllowPause that of AllowAnnotation.
const (
	AllowValue = "allow"
	AllowPause = "pause"
)

// OwnerPolicy says what to do with the custom resource that controls a StatefulSet.
type OwnerPolicy string

const (
	// OwnerPause refuses to work on a set whose owner cannot be paused. The default.
	OwnerPause OwnerPolicy = "pause"
	// OwnerIgnore works on the set as if nobody owned it.
	OwnerIgnore OwnerPolicy = "ignore"
)

// OnScaleUp says what becomes of a cleanup whose ordinal is wanted again.
type OnScaleUp string

const (
	// OnScaleUpWait has the new replica wait for the end of the cleanup; it starts on a fresh claim. The default.
	OnScaleUpWait OnScaleUp = "wait"
	// OnScaleUpCancel stops a cleanup that has not succeeded yet; the replica starts on the claim that it had.
	OnScaleUpCancel OnScaleUp = "cancel"
)

// Method is a way to give a claim another size.
type Method string

const (
	MethodAuto   Method = "auto"
	MethodExpand Method = "expand"
	// MethodExpandOffline: claims grow on their volumes while their member is stopped and the volumes are detached, for drivers that support only
	// offline expansion. Never a copy.
	MethodExpandOffline Method = "expand-offline"
	MethodCopy          Method = "copy"
	// MethodRollback is nothing that an annotation asks for by this name: claims get back the volumes that they had before.
	MethodRollback Method = "rollback"
)

// Function is the name of a function, as in its Knative Service and in the concerns extension.
type Function string

const (
	Sift         Function = "sift"
	DetectResize Function = "detect-resize"
	PauseOwner   Function = "pause-owner"
	Backup       Function = "backup"
	Restore      Function = "restore"
	IdleTimeout  Function = "idle-timeout"
	WakeGateway  Function = "wake-gateway"
	CleanupPod   Function = "cleanup-pod"
	ScaleHooks   Function = "scale-hooks"
	DeadLetter   Function = "dead-letter"
	GrowVolumes  Function = "grow-volumes"
	// Source is no function: the event source, which has an account like one.
	Source Function = "source"
)

// Package api is Drydock's public schema: the keys of its labels and annotations, and the documents stored in them. It is the only package
// with a compatibility promise: from version 1.0 on, each version reads the documents of all earlier ones.
package api

// Prefix is the prefix of every label, annotation and finalizer of Drydock.
const Prefix = "drydock.dev/"

// HomeNamespace is the namespace of Drydock's own accounts and settings. The admission policies in config/policy name it, too.
const HomeNamespace = "drydock"

// Keys that users write.
const (
	// ManagedLabel opts a StatefulSet in when it is "true". Drydock touches no other set. The event source selects by it on the server.
	ManagedLabel = Prefix + "managed"

	// ResizeAnnotation on a StatefulSet requests new volumes, for example "data=20Gi@fast" for the claims of template data. It stays after
	// the operation.
	ResizeAnnotation = Prefix + "resize"

	// ResizeAppliedAnnotation on a StatefulSet is the request that an edited manifest made: the policy of config/apply writes it
	// and drydock.dev/resize with the same value. While both are equal, an apply of the stored templates withdraws the request.
	ResizeAppliedAnnotation = Prefix + "resize-applied"

	// TemplatesAnnotation on a StatefulSet says which changes of its volumeClaimTemplates an apply may request: "grow" (the default), "any"
	// or "off"; the policies in config/apply read that. "owner" makes claims follow the templates of a set that an operator controls: see
	// RequestOf.
	TemplatesAnnotation = Prefix + "templates"

	// ResizeMethodAnnotation on a StatefulSet says how its claims change: "auto" (the default), "expand", "expand-offline" or "copy".
	ResizeMethodAnnotation = Prefix + "resize-method"

	// ResizeParallelismAnnotation on a StatefulSet is the number of members that are copied at once, a whole number from 1.
	ResizeParallelismAnnotation = Prefix + "resize-parallelism"

	// StrategyAnnotation on a StatefulSet says how many members stop at once while their claims get other volumes: "whole" (the default),
	// all of them, or "rolling", one.
	StrategyAnnotation = Prefix + "resize-strategy"

	// CutoverAnnotation on a StatefulSet says when a resize may stop members: "auto" (the default), "approve", which waits for
	// drydock.dev/approve, or windows such as "Sat 02:00-05:00 Europe/Berlin".
	CutoverAnnotation = Prefix + "cutover"

	// ApproveAnnotation on a StatefulSet is the id of the operation that may stop members now. It is removed when the operation ends.
	ApproveAnnotation = Prefix + "approve"

	// MaxStopAnnotation on a StatefulSet is a Go duration: how long a member may be stopped for its final pass. A member is stopped only
	// when the forecast is shorter. The default is 1m for rolling, and no limit for whole.
	MaxStopAnnotation = Prefix + "max-stop"

	// FirstPassAnnotation on a StatefulSet says whether a mover copies beside the running pod: "auto" (the default), if the node can mount
	// the volumes in a second pod, or "off", never. Without a first pass, the stop lasts as long as the whole copy.
	FirstPassAnnotation = Prefix + "first-pass"

	// BandwidthAnnotation on a StatefulSet is a quantity: how many bytes a second a mover may read and write while its member runs. The
	// first pass counts each byte four times: it reads the source, writes the copy, and reads both to compare them. There is no limit by
	// default.
	BandwidthAnnotation = Prefix + "resize-bandwidth"

	// PrimaryAnnotation on a StatefulSet is KEY=VALUE, the label of the pod that is the primary now. The primary is moved last.
	PrimaryAnnotation = Prefix + "primary-label"

	// MemberCheckAnnotation on a StatefulSet says how to ask a member whether it has caught up with the others, for example
	// "http:8008/readiness" or "tcp:5432". restore asks before it stops a member of a rolling resize, and after each start.
	MemberCheckAnnotation = Prefix + "member-check"

	// BeforeMemberAnnotation on a StatefulSet is a PodTemplateSpec as JSON or YAML. Its pod is the hook that runs before a resize stops a
	// member.
	BeforeMemberAnnotation = Prefix + "before-member"

	// AfterMemberAnnotation on a StatefulSet is a PodTemplateSpec as JSON or YAML. Its pod is the hook that runs after a resize has started
	// a member.
	AfterMemberAnnotation = Prefix + "after-member"

	// MoverAnnotation on a StatefulSet says how the pods that copy its volumes run, as YAML or JSON. The namespace's ConfigMap
	// drydock-mover supplies missing options, then the workload's own pod template.
	MoverAnnotation = Prefix + "mover"

	// GrowAnnotation on a StatefulSet says when its volumes grow automatically, for example "data=below:15%,max:500Gi". Without it, the
	// rules in the namespace's ConfigMap drydock-grow apply.
	GrowAnnotation = Prefix + "grow"

	// RetryAnnotation on a StatefulSet or a Scaler, with any value, retries a failed or refused operation. The retry removes it. If there is
	// nothing to retry, a Warning says what to do instead. On a StatefulSet that an operator makes, the value must be the id of the operation
	// that failed: an operator may copy the annotation again and again, and each attempt has an id of its own.
	RetryAnnotation = Prefix + "retry"

	// RollbackAnnotation on a StatefulSet is the id of an operation whose old volumes are to be restored. Data written since then stays on
	// the volumes that they replace. It is removed when the rollback begins or is refused. On a StatefulSet that an operator makes, the
	// value also names the StatefulSet and a time, as kubectl drydock rollback writes it. It counts once, because an operator may
	// copy it again and again.
	RollbackAnnotation = Prefix + "rollback"

	// AbortAnnotation on a StatefulSet, with any value, ends its operation. Moved members stay on their new volumes, the others start on
	// their old ones. It is removed when the operation has ended. On the resource of an operator that copies annotations it ends
	// each operation.
	AbortAnnotation = Prefix + "abort"

	// OwnerPolicyAnnotation on a StatefulSet says what happens to the operator that controls it: "pause" (the default) pauses it, after a
	// resize until its resource says what the claims have, and refuses a set whose operator cannot be paused. "update" also writes the new
	// size and class into the resource if the namespace consents. "ignore" works as if there were no operator, and ends the wait for the
	// resource.
	OwnerPolicyAnnotation = Prefix + "owner-policy"

	// PausedAnnotation on a StatefulSet puts the set to sleep while it is "true".
	PausedAnnotation = Prefix + "paused"

	// IdleTimeoutAnnotation on a StatefulSet is a Go duration. The set goes to sleep when it had no activity for that time. Without it,
	// inactivity never puts the set to sleep.
	IdleTimeoutAnnotation = Prefix + "idle-timeout"

	// LastActivityAnnotation on a StatefulSet is the time of its last use, in RFC 3339. Events only move it later.
	LastActivityAnnotation = Prefix + "last-activity"

	// SleepRequestedAnnotation on a StatefulSet is a time in RFC 3339. It puts the set and its group to sleep although their idle timeout
	// is not over. Activity at or after that time counts again. A time in the future has no effect yet.
	SleepRequestedAnnotation = Prefix + "sleep-requested"

	// AwakeUntilAnnotation on a StatefulSet is a time in RFC 3339, until which the set is awake. Events only move it later.
	AwakeUntilAnnotation = Prefix + "awake-until"

	// KeepWarmAnnotation on a StatefulSet lists windows of the week that keep the set awake, for example "Mon-Fri 08:00-18:00
	// Europe/Berlin".
	KeepWarmAnnotation = Prefix + "keep-warm"

	// MinUptimeAnnotation on a StatefulSet is a Go duration: how long the set stays awake after it became ready.
	MinUptimeAnnotation = Prefix + "min-uptime"

	// GroupLabel on a StatefulSet names its group. The sets of a namespace with the same value wake and sleep together. It is a label, so
	// that the API server can select by it.
	GroupLabel = Prefix + "group"

	// DependsOnAnnotation on a StatefulSet lists other sets of its group, separated by commas. They are ready before this set starts, and
	// stop after it.
	DependsOnAnnotation = Prefix + "depends-on"

	// ActivityProbeAnnotation on a StatefulSet says how to find out at the end of the timeout whether the set is in use.
	ActivityProbeAnnotation = Prefix + "activity-probe"

	// WakeReplicasAnnotation on a StatefulSet is the count for a set at zero that Drydock did not put to sleep. Without it, such a set
	// stays at zero.
	WakeReplicasAnnotation = Prefix + "wake-replicas"

	// WakeReadyAnnotation on a StatefulSet is how many replicas must be ready before a waking set counts as awake: "all" (the default),
	// "first" or a count.
	WakeReadyAnnotation = Prefix + "wake-ready"

	// CleanupTemplateAnnotation on a StatefulSet is a PodTemplateSpec as JSON or YAML. Its pod runs on the claims of removed members.
	CleanupTemplateAnnotation = Prefix + "cleanup-pod-template"

	// OlderCleanupTemplateAnnotation replaces an absent drydock.dev/cleanup-pod-template. It is the key of the
	// statefulset-scaledown-controller.
	OlderCleanupTemplateAnnotation = "statefulsets.kubernetes.io/scaledown-pod-template"

	// CleanupOnScaleUpAnnotation on a StatefulSet says what happens to a cleanup when a scale-up needs its ordinal: "wait" (the default)
	// lets it end, "cancel" stops it.
	CleanupOnScaleUpAnnotation = Prefix + "cleanup-on-scale-up"

	// CleanupFromAnnotation on a StatefulSet is an ordinal: the pods from there on are not expected back, so their claims are cleaned up.
	// The command kubectl drydock cleanup --from writes it, for example "2@UID/12" with the UID and the generation of the StatefulSet, for
	// which alone it counts. Drydock removes it.
	CleanupFromAnnotation = Prefix + "cleanup-from"

	// CleanupAtZeroAnnotation on a StatefulSet, when "true", says that a user who scales the set to zero does not expect its pods back.
	// Without it, zero replicas are a stop, after which the pods start on their former claims.
	CleanupAtZeroAnnotation = Prefix + "cleanup-at-zero"

	// SuccessMessageAnnotation on the pod template of a cleanup or a hook is a line that a container of the pod writes to its termination
	// message when it has finished its work. The pod has succeeded only then.
	SuccessMessageAnnotation = Prefix + "success-message"

	// CleanupOnDeleteAnnotation on a StatefulSet, when "true", cleans up every ordinal before the deleted set disappears. A set that an
	// operator makes may not have it: many operators delete a set to create it again.
	CleanupOnDeleteAnnotation = Prefix + "cleanup-on-delete"

	// NodeAccessLabel on a Namespace, value "allow", admits pods that reach their node by hostPath, host namespaces or privileged
	// containers. Drydock may then replace their StatefulSets and run them as cleanup pods. config/policy refuses both without it.
	NodeAccessLabel = Prefix + "node-access"

	// RootMoverLabel on a Namespace, value "allow", lets movers run there as root, with the capabilities that file ownership needs.
	// Without it, a mover runs as the workload's own user under the restricted Pod Security level.
	RootMoverLabel = Prefix + "root-mover"

	// PauseOwnersLabel on a Namespace lets pause-owner change the custom resources there that control opted-in StatefulSets: an OwnerConsent.
	// It is no annotation of the resource, because operators copy annotations into pod templates and restart the pods.
	PauseOwnersLabel = Prefix + "pause-owners"
)

// Keys that Drydock writes.
const (
	// StatusAnnotation on a StatefulSet is the record of its latest resize or rollback. It stays after the operation.
	StatusAnnotation = Prefix + "status"

	// SleepAnnotation on a StatefulSet is the record of its latest sleep, from the decision to the end of the wake-up. It has its own key,
	// so that a nightly sleep does not overwrite the result of the last resize.
	SleepAnnotation = Prefix + "sleep"

	// CleanupAnnotation on a StatefulSet is the record of its latest cleanup. Without an active cleanup it lists the ordinals that are
	// accounted for, and shows that the template is valid.
	CleanupAnnotation = Prefix + "cleanup"

	// LedgerAnnotation on a StatefulSet says which pods it has, running or stopped, and which are to be removed with their claims.
	LedgerAnnotation = Prefix + "members"

	// StopAnnotation on a StatefulSet says that its pods are stopped for its sleep, or because its Scaler is paused, and how many come back.
	StopAnnotation = Prefix + "stop"

	// ScaleAnnotation on a StatefulSet is the record of its latest scaling by a Scaler. Without an active scaling it names the Scaler of
	// the set and the count that the Scaler last observed.
	ScaleAnnotation = Prefix + "scale"

	// GrowToAnnotation on a StatefulSet has the floor of each template that grows by usage: the size that its claims grow to, for example
	// "data=15Gi". Only grow-volumes writes it, and removes it when growth is turned off. detect-resize lets the claims grow.
	GrowToAnnotation = Prefix + "grow-to"

	// GrowthAnnotation on a StatefulSet has the latest growth of each template, and the present Warnings of grow-volumes. detect-resize
	// reads from it which floors count. It stays.
	GrowthAnnotation = Prefix + "growth"

	// ReplicaOfAnnotation on a claim is the UID of the StatefulSet whose pod used the claim. Only such a claim is cleaned up. cleanup-pod
	// writes it while the pod exists; users may write it by hand.
	ReplicaOfAnnotation = Prefix + "replica-of"

	// DeadLettersAnnotation on a StatefulSet lists the events about it that no function accepted. No decision depends on it. Sending an
	// event again removes it from the list, and a resize or rollback that succeeds empties the list.
	DeadLettersAnnotation = Prefix + "dead-letters"

	// OperationLabel on an object is the id of its operation. Every object that an operation creates has this label. So have the claims and
	// volumes that it replaces, the held pods, and old volumes during their retention. The event source and the sweep select by it.
	OperationLabel = Prefix + "operation"

	// MemberLabel on the pod of a mover is the name of the set's pod that will use the new volume. The mover has it when its volume is
	// provisioned on the mover's node. Rules between the set's pods, such as anti-affinity, then apply between these movers.
	MemberLabel = Prefix + "member"

	// NamespaceLabel on a volume of an operation is the namespace of the set, because volumes have none. By it, the work for one set does
	// not grow with the number of labelled volumes in the cluster.
	NamespaceLabel = Prefix + "namespace"

	// OperationAnnotation on an object of an operation is its link, as JSON: the operation, the role of the object, the set, and the claim
	// or member.
	OperationAnnotation = Prefix + "operation"

	// ClaimManifestAnnotation on a volume that is reserved for a claim is the claim to create, as JSON. The patch that reserves the volume
	// writes it. It is removed when the claim is bound.
	ClaimManifestAnnotation = Prefix + "claim"

	// ReclaimPolicyAnnotation on a volume that was set to Retain is the former reclaim policy. It is removed when the policy is restored.
	ReclaimPolicyAnnotation = Prefix + "reclaim-policy"

	// RetainedUntilAnnotation on an old volume is the end of its retention, in RFC 3339. Then the volume gets its reclaim policy back.
	RetainedUntilAnnotation = Prefix + "retained-until"

	// RecreateAnnotation on a journal is the StatefulSet to create, as JSON. It is written before the present set is deleted. Its
	// metadata.uid and resourceVersion are those of the present set: only that state may be deleted.
	RecreateAnnotation = Prefix + "recreate"

	// SetMetadataAnnotation on a journal has the metadata that restore writes on the set after its creation, as JSON. It is written in the
	// same patch as drydock.dev/recreate, and stays until the journal is deleted.
	SetMetadataAnnotation = Prefix + "set-metadata"

	// UndoingSinceAnnotation on a journal whose set was lost is the time when restore first had to wait while undoing the operation, in
	// RFC 3339.
	UndoingSinceAnnotation = Prefix + "undoing-since"

	// DisagreesSinceAnnotation on the record of a paused owner is the time since when the pause lasts only because the owner asks for other
	// sizes or classes than the set, in RFC 3339. It is written once, so that the wait has an end.
	DisagreesSinceAnnotation = Prefix + "disagrees-since"

	// HookAnnotation on the pod of a hook of a scaling has the facts of the scaling, as JSON. Its containers read them in the file
	// /etc/drydock/hook.json.
	HookAnnotation = Prefix + "hook"

	// HoldFinalizer holds a pod of a set, or the pod that locks the name of a member without one. The object stays after its containers
	// have stopped, so that the StatefulSet controller creates no replacement. It is set before the pod is told to stop.
	HoldFinalizer = Prefix + "hold"

	// FreezeFinalizer freezes a claim that is being replaced. The claim stays Terminating until the next volume is reserved for its name, so
	// that no new pod can start on it.
	FreezeFinalizer = Prefix + "freeze"

	// CleanupFinalizer holds a deleted StatefulSet until its ordinals are cleaned up. On a cleanup pod it holds the member's name, so that
	// no member starts on a claim before its deletion.
	CleanupFinalizer = Prefix + "cleanup"

	// FinalizerLabel on a StatefulSet, value "cleanup", says that the set has the finalizer drydock.dev/cleanup. Both change in the same
	// patch. By this label the sweep finds a set that lost its opt-in label and could not be deleted without Drydock.
	FinalizerLabel = Prefix + "finalizer"

	// FieldManager is Drydock's name in managedFields.
	FieldManager = "drydock"
)

// MoverConfigMap is the name of the ConfigMap that has the MoverAnnotation of a namespace, under MoverKey.
const (
	MoverConfigMap = "drydock-mover"
	MoverKey       = "mover"
)

// TurnsConfigMap is the name of the ConfigMap in HomeNamespace with the list of turns.
const TurnsConfigMap = "drydock-turns"

// GrowConfigMap is the name of the ConfigMap that has the GrowAnnotation of a namespace, under GrowKey.
const (
	GrowConfigMap = "drydock-grow"
	GrowKey       = "grow"
)

// StatsAccount is the account in HomeNamespace that may only read the statistics of kubelets. grow-volumes sends its token to kubelets, so
// that a node never gets the token of grow-volumes.
const StatsAccount = "volume-stats"

// FinalizerForCleanup is the value of FinalizerLabel.
const FinalizerForCleanup = "cleanup"

// AllowValue is the value of RootMoverLabel and NodeAccessLabel that allows it.
const AllowValue = "allow"

// OwnerConsent is what a namespace lets Drydock change in the custom resources that control its StatefulSets: the value of
// PauseOwnersLabel. Any other value allows nothing.
type OwnerConsent string

const (
	// ConsentToPause lets Drydock pause and stop owners.
	ConsentToPause OwnerConsent = "allow"
	// ConsentToUpdate lets Drydock do so, and write sizes and classes into owners whose StatefulSet has the policy OwnerUpdate.
	ConsentToUpdate OwnerConsent = "update"
)

// ConsentOf returns the consent in the labels of a namespace.
func ConsentOf(namespace map[string]string) OwnerConsent {
	return OwnerConsent(namespace[PauseOwnersLabel])
}

// AllowsPause reports whether Drydock may pause and stop owners.
func (c OwnerConsent) AllowsPause() bool { return c == ConsentToPause || c == ConsentToUpdate }

// AllowsUpdate reports whether Drydock may write sizes and classes into owners.
func (c OwnerConsent) AllowsUpdate() bool { return c == ConsentToUpdate }

// TemplatesOwner is the value of TemplatesAnnotation that makes claims follow the templates of a set that an operator controls.
const TemplatesOwner = "owner"

// OwnerPolicy says how Drydock treats the custom resource that controls a StatefulSet.
type OwnerPolicy string

const (
	// OwnerPause refuses to work on a set whose owner cannot be paused. After a resize, the pause lasts until the owner says what the claims
	// have. It is the default.
	OwnerPause OwnerPolicy = "pause"
	// OwnerUpdate is OwnerPause, and Drydock writes the new size and class into the owner, in a namespace with ConsentToUpdate.
	OwnerUpdate OwnerPolicy = "update"
	// OwnerIgnore works on the set as if it had no owner.
	OwnerIgnore OwnerPolicy = "ignore"
)

// OnScaleUp says what happens to a cleanup when a scale-up needs its ordinal.
type OnScaleUp string

const (
	// OnScaleUpWait lets the cleanup end first. The new member then starts on a fresh claim. It is the default.
	OnScaleUpWait OnScaleUp = "wait"
	// OnScaleUpCancel stops a cleanup that has not succeeded yet. The member starts on its former claim.
	OnScaleUpCancel OnScaleUp = "cancel"
)

// Method is a way to give a claim another size.
type Method string

const (
	MethodAuto   Method = "auto"
	MethodExpand Method = "expand"
	// MethodExpandOffline grows claims on their volumes while their member is stopped and the volumes are detached. It is for drivers
	// that support only offline expansion. It never copies.
	MethodExpandOffline Method = "expand-offline"
	MethodCopy          Method = "copy"
	// MethodRollback gives claims their former volumes back. No annotation requests it by this name.
	MethodRollback Method = "rollback"
)

// Function is the name of a function in its Knative Service and in the concerns extension.
type Function string

const (
	Sift          Function = "sift"
	DetectResize  Function = "detect-resize"
	PauseOwner    Function = "pause-owner"
	Backup        Function = "backup"
	Restore       Function = "restore"
	IdleTimeout   Function = "idle-timeout"
	WakeGateway   Function = "wake-gateway"
	StatusPage    Function = "status-page"
	CleanupPod    Function = "cleanup-pod"
	ScaleFunction Function = "scale"
	DeadLetter    Function = "dead-letter"
	GrowVolumes   Function = "grow-volumes"
	// Source is the event source. It is not a function, but has an account like one.
	Source Function = "source"
)

package redact

import "strings"

// removeQuote removes the message of a record, an Event or a condition that quotes the output of a user's container.
func removeQuote(object map[string]any) {
	reason, _ := object["reason"].(string)
	if _, found := object["message"]; found && quotesOutput(reason) {
		object["message"] = Removed
	}
}

// redactEvent removes the message of an Event whose message may contain the output of a container, for example of a probe. It keeps the
// messages of Drydock and the listed ones of Kubernetes.
func redactEvent(event map[string]any) {
	source, _ := event["source"].(map[string]any)
	component, _ := source["component"].(string)
	reason, _ := event["reason"].(string)
	if _, found := event["message"]; found && !strings.HasPrefix(component, "drydock-") && !harmlessReasons[reason] {
		event["message"] = Removed
	}
}

// harmlessReasons are the reasons of Kubernetes' Events whose messages contain no output of a container.
var harmlessReasons = set(
	"Scheduled", "FailedScheduling", "Preempted", "Pulling", "Pulled", "Created", "Started", "Killing", "BackOff", "Failed",
	"ErrImagePull", "ImagePullBackOff", "FailedCreatePodSandBox", "FailedMount", "FailedAttachVolume", "SuccessfulAttachVolume",
	"FailedMapVolume", "SuccessfulMountVolume", "FailedUnMount", "FileSystemResizeRequired", "FileSystemResizeSuccessful",
	"FileSystemResizeFailed", "VolumeResizeSuccessful", "VolumeResizeFailed", "Resizing", "ExternalExpanding", "Provisioning",
	"ProvisioningSucceeded", "ProvisioningFailed", "ProvisioningCleanupFailed", "ExternalProvisioning", "WaitForFirstConsumer",
	"WaitForPodScheduled", "FailedBinding", "VolumeMismatch", "ClaimLost", "ClaimMisbound", "VolumeDeleted",
	"VolumeFailedDelete", "RecyclerPod", "SuccessfulCreate", "FailedCreate", "SuccessfulDelete", "FailedDelete",
	"SuccessfulUpdate", "FailedUpdate", "RecreatingFailedPod", "RecreatingTerminatedPod", "Completed", "Suspended", "Resumed",
	"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "Evicted", "NodeNotReady", "NodeLost",
	"TaintManagerEviction", "NoPods", "NodeAffinity", "OutOfcpu", "OutOfmemory", "Rebooted", "VolumeModify",
	"VolumeModifyFailed", "VolumeModifySuccessful")

// redactFindings removes the states that quote an error: the error may contain the whole answer of the API server.
func redactFindings(document map[string]any) {
	findings, _ := document["findings"].([]any)
	for _, item := range findings {
		finding, _ := item.(map[string]any)
		state, _ := finding["state"].(string)
		if finding["level"] == "unknown" && !strings.HasPrefix(state, "you may not ") {
			finding["state"] = Removed
		}
	}
}

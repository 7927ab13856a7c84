package redact

import (
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
)

// lastApplied is the whole object as kubectl apply sent it, with every value.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// domains are the prefixes of Kubernetes' labels and annotations whose values are names, versions and node properties.
var domains = set("kubernetes.io", "app.kubernetes.io", "apps.kubernetes.io", "statefulset.kubernetes.io", "batch.kubernetes.io",
	"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io", "storageclass.kubernetes.io", "topology.kubernetes.io",
	"node.kubernetes.io", "node-role.kubernetes.io", "failure-domain.beta.kubernetes.io", "beta.kubernetes.io",
	"pod-security.kubernetes.io")

// plainKeys are Kubernetes' labels and annotations outside of these domains.
var plainKeys = set("controller-revision-hash", "pod-template-hash", "controller-uid", "job-name", "pod-template-generation",
	"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/restartedAt", "serving.knative.dev/service",
	"serving.knative.dev/revision")

// ownLabels are the keys of Drydock's labels. Their values are ids, names and switches.
var ownLabels = set(api.ManagedLabel, api.GroupLabel, api.NodeAccessLabel, api.RootMoverLabel, api.PauseOwnersLabel, api.OperationLabel,
	api.MemberLabel, api.NamespaceLabel, api.FinalizerLabel)

// ownTexts are the keys of Drydock's annotations whose values are one short text.
var ownTexts = set(api.ResizeAnnotation, api.ResizeAppliedAnnotation, api.TemplatesAnnotation, api.ResizeMethodAnnotation,
	api.ResizeParallelismAnnotation, api.StrategyAnnotation, api.CutoverAnnotation, api.ApproveAnnotation, api.MaxStopAnnotation,
	api.FirstPassAnnotation,
	api.BandwidthAnnotation, api.PrimaryAnnotation, api.GrowAnnotation, api.GrowToAnnotation, api.RetryAnnotation,
	api.RollbackAnnotation, api.AbortAnnotation, api.OwnerPolicyAnnotation, api.PausedAnnotation, api.IdleTimeoutAnnotation,
	api.LastActivityAnnotation, api.SleepRequestedAnnotation, api.AwakeUntilAnnotation, api.KeepWarmAnnotation, api.MinUptimeAnnotation,
	api.DependsOnAnnotation, api.WakeReplicasAnnotation, api.WakeReadyAnnotation, api.CleanupOnScaleUpAnnotation,
	api.CleanupFromAnnotation, api.CleanupAtZeroAnnotation, api.CleanupOnDeleteAnnotation,
	api.SuccessMessageAnnotation, api.ReplicaOfAnnotation,
	api.ReclaimPolicyAnnotation, api.RetainedUntilAnnotation, api.UndoingSinceAnnotation, api.DisagreesSinceAnnotation,
	moverreport.LeaseAnnotation)

// ownDocuments maps the other annotations of Drydock to the rules for their documents. An annotation without a rule is removed:
// drydock.dev/activity-probe and drydock.dev/member-check can contain any query.
var ownDocuments = map[string]string{
	api.StatusAnnotation:               "Record",
	api.SleepAnnotation:                "Record",
	api.CleanupAnnotation:              "Record",
	api.ScaleAnnotation:                "Record",
	api.StopAnnotation:                 "Stop",
	api.GrowthAnnotation:               "Growth",
	api.LedgerAnnotation:               "Ledger",
	api.DeadLettersAnnotation:          "DeadLetters",
	api.OperationAnnotation:            "Link",
	api.HookAnnotation:                 "Hook",
	moverreport.SignalAnnotation:       "Signal",
	api.ClaimManifestAnnotation:        "PersistentVolumeClaim",
	api.RecreateAnnotation:             "StatefulSet",
	api.SetMetadataAnnotation:          "SetMetadata",
	api.MoverAnnotation:                "MoverOptions",
	api.CleanupTemplateAnnotation:      "PodTemplate",
	api.OlderCleanupTemplateAnnotation: "PodTemplate",
	api.BeforeMemberAnnotation:         "PodTemplate",
	api.AfterMemberAnnotation:          "PodTemplate",
}

// isKubernetes reports whether the key is one of Kubernetes with a known kind of value.
func isKubernetes(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && domains[domain] || plainKeys[key]
}

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

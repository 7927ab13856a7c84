package redact

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/moverreport"
)

// Object returns a copy of a Kubernetes object, or of another document, without the values that the rule for its kind does not list. A kind
// without a rule keeps its apiVersion, kind and metadata. The object must be as JSON decodes it.
func Object(kind string, object map[string]any) map[string]any {
	rule, known := rules[kind].(map[string]any)
	if !known {
		rule = map[string]any{"apiVersion": keepRule, "kind": keepRule, "metadata": rules["metadata"]}
	}
	redacted, _ := apply(rule, dropped(object)).(map[string]any)
	switch kind {
	case "Event":
		redactEvent(redacted)
	case "ControllerRevision":
		redactRevision(redacted)
	case "Doctor":
		redactFindings(redacted)
	}
	return redacted
}

// dropped returns the object without metadata that is long and says nothing about the object.
func dropped(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	return with(object, "metadata", without(metadata, "managedFields"))
}

// apply returns the value as far as the rule keeps it. A nil rule keeps nothing. Empty lists and maps stay, because they contain nothing.
func apply(rule, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		if len(v) == 0 {
			return v
		}
		return applyToMap(rule, v)
	case []any:
		if len(v) == 0 {
			return v
		}
		return applyToList(rule, v)
	case string:
		if rule == keepRule || rule == allRule {
			return Message(v)
		}
		return Removed
	}
	if rule == keepRule || rule == allRule {
		return value // a number or a truth value
	}
	return Removed
}

func applyToMap(rule any, value map[string]any) any {
	switch r := rule.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, v := range value {
			own, known := r[key]
			if !known {
				own = r[anyKey]
			}
			kept[Text(key)] = apply(own, v)
		}
		removeQuote(kept)
		return kept
	case string:
		switch r {
		case labelsRule:
			return labels(value)
		case annotationsRule:
			return annotations(value)
		case allRule:
			kept := map[string]any{}
			for key, v := range value {
				kept[Text(key)] = apply(allRule, v)
			}
			return kept
		}
	}
	return Removed
}

func applyToList(rule any, value []any) any {
	var own any
	switch r := rule.(type) {
	case []any:
		own = r[0]
	case string:
		if r == allRule {
			own = allRule
		}
	}
	if own == nil {
		return Removed
	}
	kept := make([]any, len(value))
	for i, v := range value {
		kept[i] = apply(own, v)
	}
	return kept
}

// redactRevision removes the data of a revision that is not Drydock's: that of the StatefulSet controller contains a pod template.
func redactRevision(revision map[string]any) {
	metadata, _ := revision["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	owners, _ := metadata["ownerReferences"].([]any)
	if _, found := revision["data"]; found && (!strings.HasPrefix(name, "drydock-") || len(owners) > 0) {
		revision["data"] = Removed
	}
}

func with(object map[string]any, key string, value any) map[string]any {
	changed := without(object, key)
	changed[key] = value
	return changed
}

func without(object map[string]any, key string) map[string]any {
	changed := map[string]any{}
	for k, v := range object {
		if k != key {
			changed[k] = v
		}
	}
	return changed
}

// labels keeps the keys of all labels, and the values of Kubernetes' and Drydock's.
func labels(all map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range all {
		kept[key] = Removed
		if text, ok := value.(string); ok && (isKubernetes(key) || ownLabels[key]) {
			kept[key] = Text(text)
		}
	}
	return kept
}

// annotations keeps the keys of all annotations. It keeps the values of Kubernetes' and Drydock's, as far as their rules do.
func annotations(all map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range all {
		text, ok := value.(string)
		switch {
		case key == lastApplied:
		case !ok:
			kept[key] = Removed
		case ownDocuments[key] != "":
			kept[key] = document(ownDocuments[key], text)
		case ownTexts[key]:
			kept[key] = Message(text)
		case isKubernetes(key):
			kept[key] = Text(text)
		default:
			kept[key] = Removed
		}
	}
	return kept
}

// document returns the redacted document of an annotation as JSON. It returns Removed if the text is no such document.
func document(kind, text string) string {
	object, ok := read(text)
	if !ok {
		return Removed
	}
	redacted, err := json.Marshal(Object(kind, object))
	if err != nil {
		return Removed
	}
	return string(redacted)
}

// read reads a document in JSON or YAML.
func read(text string) (map[string]any, bool) {
	object := map[string]any{}
	if json.Unmarshal([]byte(text), &object) == nil {
		return object, true
	}
	converted, err := bounded.ToJSON(text)
	return object, err == nil && json.Unmarshal(converted, &object) == nil
}

//go:embed allowed.yaml
var allowedText []byte

// rules has the content of allowed.yaml: a rule for each kind of document.
var rules = loadRules()

func loadRules() map[string]any {
	loaded := map[string]any{}
	if err := yaml.UnmarshalStrict(allowedText, &loaded); err != nil {
		panic(fmt.Sprintf("reading allowed.yaml: %v", err)) // a test loads it
	}
	return loaded
}

// Names of rules for single values.
const (
	keepRule        = "keep"
	allRule         = "all"
	labelsRule      = "labels"
	annotationsRule = "annotations"
	anyKey          = "*"
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

// otherSettings are the variables in drydock-settings that are not in api.Settings and contain no credentials.
var otherSettings = set("K_SINK", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "LOG_LEVEL", "PORT", "DRYDOCK_TICK", "DRYDOCK_EVENT_TIMEOUT",
	"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SDK_DISABLED",
	"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME")

// Settings returns the settings with the values of the known variables. It removes all other values.
func Settings(all map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range all {
		kept[name] = Removed
		if otherSettings[name] || isSetting(name) {
			kept[name] = Text(value)
		}
	}
	return kept
}

// isSetting reports whether the variable is one of api.Settings.
func isSetting(name string) bool {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[api.Settings]()) {
		if name != "" && field.Tag.Get("envconfig") == name {
			return true
		}
	}
	return false
}

// recordKeys are the annotations with the records of operations, and with what other functions store.
var recordKeys = []string{api.StatusAnnotation, api.SleepAnnotation, api.CleanupAnnotation, api.ScaleAnnotation, api.StopAnnotation,
	api.GrowthAnnotation, api.LedgerAnnotation, api.DeadLettersAnnotation}

// Records returns the redacted documents in the annotations of a StatefulSet, by key. An unreadable one is Removed.
func Records(annotations map[string]string) map[string]any {
	records := map[string]any{}
	for _, key := range recordKeys {
		text, found := annotations[key]
		if !found {
			continue
		}
		records[key] = Removed
		if object, ok := read(text); ok {
			records[key] = Object(ownDocuments[key], object)
		}
	}
	return records
}

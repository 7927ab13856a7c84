package redact

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"drydock.dev/shared/api"
)

// Quotes replaces the commands, paths and queries of a user wherever another text quotes them: a kubelet quotes the command that does not
// start, and a record the activity probe that fails.
type Quotes struct {
	forms []string // longest first, because one may contain another
}

// shortest is the length of the shortest text that is replaced, in bytes. Shorter ones, such as sh and -c, say nothing.
const shortest = 4

// objectName matches names of objects and containers, reasons and single words, which are no quotes.
var objectName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9./-]*[A-Za-z0-9])?$`)

// QuotesOf collects the texts from the objects: commands and arguments of containers, URLs of hooks, paths that a kubelet requests, and
// the annotations for activity probes and member checks.
func QuotesOf(objects ...map[string]any) Quotes {
	found := map[string]bool{}
	for _, object := range objects {
		collect(object, found)
	}
	var forms []string
	for text := range found {
		if text = strings.TrimSpace(text); len(text) >= shortest && !strings.Contains(Removed, text) {
			once := escaped(text)
			for _, form := range []string{text, once, escaped(once)} { // once in a document of an annotation, twice in a quote there
				forms = append(forms, form, htmlEscapes.Replace(form))
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return Quotes{slices.Compact(forms)}
}

// htmlEscapes undoes what only some encoders of JSON escape.
var htmlEscapes = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

func escaped(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted[1 : len(quoted)-1])
}

// collect adds the texts in the value, and in the documents that annotations contain.
func collect(value any, into map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			collect(item, into)
		}
	case map[string]any:
		for key, item := range v {
			text, isText := item.(string)
			list, _ := item.([]any)
			switch {
			case key == "command" || key == "args":
				collectWords(list, into)
			case isText && (key == "url" || key == "path" && v["port"] != nil): // path of httpGet
				into[text] = true
			case isText && (key == api.ActivityProbeAnnotation || key == api.MemberCheckAnnotation):
				_, rest, _ := strings.Cut(text, ":")
				_, path, _ := strings.Cut(rest, "/")
				for _, part := range []string{text, rest, "/" + path} {
					into[part] = true
				}
			case isText && ownDocuments[key] != "":
				if document, ok := read(text); ok {
					collect(document, into)
				}
			}
			collect(item, into)
		}
	}
}

// collectWords adds a command line, its words, and the lines of a word that is a script.
func collectWords(list []any, into map[string]bool) {
	var words []string
	for _, item := range list {
		if word, ok := item.(string); ok {
			words = append(words, word)
		}
	}
	into[strings.Join(words, " ")] = true
	for _, word := range words {
		into[word] = true
		for line := range strings.Lines(word) {
			into[line] = true
		}
	}
}

// Object returns a copy of the object without the texts.
func (q Quotes) Object(object map[string]any) map[string]any {
	if object == nil {
		return object
	}
	return q.value(object).(map[string]any)
}

func (q Quotes) value(value any) any {
	switch v := value.(type) {
	case string:
		return q.Text(v)
	case []any:
		all := slices.Clone(v)
		for i := range all {
			all[i] = q.value(all[i])
		}
		return all
	case map[string]any:
		all := maps.Clone(v)
		for key := range all {
			all[key] = q.value(all[key])
		}
		return all
	}
	return value
}

// Text returns the text without the texts. It leaves a name as it is.
func (q Quotes) Text(text string) string {
	if objectName.MatchString(text) {
		return text
	}
	for _, form := range q.forms {
		text = replaceWhole(text, form)
	}
	return text
}

// replaceWhole replaces the form wherever it is not a part of a longer word. A path, for example, begins with no word.
func replaceWhole(text, form string) string {
	var b strings.Builder
	rest := text
	for {
		start := strings.Index(rest, form)
		if start < 0 {
			return b.String() + rest
		}
		before, end := len(text)-len(rest)+start, start+len(form)
		if before > 0 && isWord(form[0]) && isWord(text[before-1]) || end < len(rest) && isWord(form[len(form)-1]) && isWord(rest[end]) {
			end = start + 1
			b.WriteString(rest[:end])
		} else {
			b.WriteString(rest[:start] + Removed)
		}
		rest = rest[end:]
	}
}

func isWord(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

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

package operation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// NoteOf returns a Kubernetes Event with the reason and message of the record.
func NoteOf(set *appsv1.StatefulSet, record Record, warning bool) plan.Action {
	head := record.Head()
	return plan.Record(set.Namespace, set.Name, plan.Note{Warning: warning, Reason: head.Reason, Message: head.Message,
		UID: set.UID, Operation: head.Operation})
}

// AskAgain says how the user asks again for an operation that has failed. A rollback discards newer data, so the retry
// annotation does not begin one.
func AskAgain(resize *api.Resize) string {
	if resize.IsRollback() {
		return "ask again with kubectl drydock rollback"
	}
	return "ask again with the annotation " + api.RetryAnnotation
}

// TookTooLong says that the members were not moved in time, with the latest obstacle.
func TookTooLong(resize *api.Resize, limit time.Duration) string {
	last := "look at the mover pods"
	switch resize.Reason {
	case api.GateClosed, api.MoverStalled, api.StartedByOthers:
		last = resize.Message
	}
	return fmt.Sprintf("the members were not moved within %s: %s, then %s", limit, last, AskAgain(resize))
}

// Summary describes the result of a resize or a rollback in one sentence.
func Summary(resize *api.Resize, retention time.Duration) string {
	volumes := summaryOfVolumes(resize, retention)
	switch fields := fieldsWords(resize.Fields); {
	case fields == "":
		return volumes
	case len(resize.Expansions)+len(resize.Members)+len(resize.Templates) == 0:
		return fields
	default:
		return volumes + "; " + fields
	}
}

// fieldsWords says which fields the set has got, and what has not changed by that; empty without fields.
func fieldsWords(fields []api.Field) string {
	if len(fields) == 0 {
		return ""
	}
	words := []string{"the set was created again with " + strings.Join(api.Words(fields), ", ")}
	has := func(names ...api.FieldName) bool {
		return slices.ContainsFunc(fields, func(f api.Field) bool { return slices.Contains(names, f.Name) })
	}
	if has(api.FieldServiceName) {
		words = append(words, "each pod that runs gets its name in the new service when it is started again")
	}
	if has(api.FieldLabels, api.FieldAnnotations) {
		words = append(words, "claims that exist keep their labels and annotations")
	}
	for _, s := range fields {
		if s.Removes() {
			words = append(words, "the claims of template "+s.Template+" are kept, and pods that run keep their volumes")
		}
	}
	return strings.Join(words, "; ")
}

func summaryOfVolumes(resize *api.Resize, retention time.Duration) string {
	grown, moved := len(resize.Expansions), len(resize.Moves())
	switch {
	case resize.IsRollback():
		return fmt.Sprintf("%d claims have their old volumes back; those with what was written since are kept for %s", moved, retention)
	case grown > 0 && moved > 0:
		return fmt.Sprintf("%d claims have grown, %d are on new volumes; the old volumes are kept for %s", grown, moved, retention)
	case grown > 0:
		return fmt.Sprintf("%d claims have grown", grown)
	case moved > 0:
		return fmt.Sprintf("%d claims are on new volumes; the old volumes are kept for %s", moved, retention)
	}
	return "the set has its new templates"
}

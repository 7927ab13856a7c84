package operation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
)

// NoteOf returns a Kubernetes Event with the reason and message of the record.
func NoteOf(set *appsv1.StatefulSet, record Record, warning bool) plan.Action {
	head := record.Head()
	return plan.Event(set.Namespace, set.Name, plan.Note{Warning: warning, Reason: head.Reason, Message: head.Message,
		UID: set.UID, Operation: head.Operation})
}

// HowToRetry returns how the user can repeat a failed operation, as an imperative. The retry annotation does not begin a rollback, because
// a rollback discards newer data.
func HowToRetry(namespace string, resize *api.Resize) string {
	if resize.IsRollback() {
		return fmt.Sprintf("retry with kubectl drydock rollback -n %s sts/%s", namespace, resize.Set.Name)
	}
	return "retry with " + retryCommand(namespace, resize.Set.Name)
}

// RetryCommand returns the command that repeats what has failed on the set.
func RetryCommand(set *appsv1.StatefulSet) string { return retryCommand(set.Namespace, set.Name) }

func retryCommand(namespace, name string) string {
	return fmt.Sprintf("kubectl drydock retry -n %s sts/%s", namespace, name)
}

// RetriedOtherwise says how failed operations that a retry on the set does not repeat are tried again. It is empty if there are none.
func RetriedOtherwise(set *appsv1.StatefulSet, records Records) (how string) {
	if s := records.Scale; s != nil && s.Phase == api.Failed {
		scaler := s.Scaler.Name
		if len(validation.IsDNS1123Subdomain(scaler)) > 0 { // a user may have written the record
			scaler = "NAME"
		}
		how += fmt.Sprintf(". Its scaling %s failed. Retry it with: kubectl annotate -n %s scaler %s %s=", s.Operation, set.Namespace, scaler,
			api.RetryAnnotation)
	}
	if records.SleepRests() {
		how += fmt.Sprintf(". Its sleep %s is %s. Drydock tries it again by itself", records.Sleep.Operation, records.Sleep.Phase)
	}
	return how
}

// TookTooLong returns the message for members that were not moved in time, with the latest obstacle.
func TookTooLong(namespace string, resize *api.Resize, limit time.Duration) string {
	obstacle := "look at the mover pods"
	switch resize.Reason {
	case api.GateClosed, api.MoverStalled, api.StartedByOthers:
		obstacle = resize.Message
	}
	return fmt.Sprintf("the members were not moved within %s: %s, then %s", limit, obstacle, HowToRetry(namespace, resize))
}

// Summary returns the result of a resize or a rollback in one sentence.
func Summary(resize *api.Resize, retention time.Duration) string {
	volumes := summaryOfVolumes(resize, retention)
	switch fields := fieldsSummary(resize.Fields); {
	case fields == "":
		return volumes
	case len(resize.Expansions)+len(resize.Members)+len(resize.Templates) == 0:
		return fields
	default:
		return volumes + "; " + fields
	}
}

// fieldsSummary returns the changed fields of the set and their effect on running pods and existing claims. It returns "" without fields.
func fieldsSummary(fields []api.Field) string {
	if len(fields) == 0 {
		return ""
	}
	parts := []string{"the set was created again with the changes " + strings.Join(api.Words(fields), ", ")}
	has := func(names ...api.FieldName) bool {
		return slices.ContainsFunc(fields, func(f api.Field) bool { return slices.Contains(names, f.Name) })
	}
	if has(api.FieldServiceName) {
		parts = append(parts, "each running pod gets its name in the new service when it restarts")
	}
	if has(api.FieldLabels, api.FieldAnnotations) {
		parts = append(parts, "existing claims keep their labels and annotations")
	}
	for _, s := range fields {
		if s.Removes() {
			parts = append(parts, "the claims of template "+s.Template+" are kept, and running pods keep their volumes")
		}
	}
	return strings.Join(parts, "; ")
}

func summaryOfVolumes(resize *api.Resize, retention time.Duration) string {
	moved := len(resize.Moves())
	done := inPlace(resize, true)
	switch {
	case resize.IsRollback():
		return fmt.Sprintf("%s back; the replaced volumes with the newer data are kept for %s",
			claims(moved, "has its old volume", "have their old volumes"), retention)
	case resize.GrowsWhileStopped() && done != "":
		return done + ", " + text.Number(moved, "has grown while its member was stopped", "have grown while their members were stopped")
	case resize.GrowsWhileStopped():
		return claims(moved, "has grown while its member was stopped", "have grown while their members were stopped")
	case done != "" && moved > 0:
		return fmt.Sprintf("%s, %s; the old volumes are kept for %s", done,
			text.Number(moved, "is on a new volume", "are on new volumes"), retention)
	case done != "":
		return done
	case moved > 0:
		return fmt.Sprintf("%s; the old volumes are kept for %s", claims(moved, "is on a new volume", "are on new volumes"), retention)
	}
	return "the set has its new templates"
}

// Announcement returns the plan of a resize that begins, in one sentence.
func Announcement(resize *api.Resize) string {
	moved := len(resize.Moves())
	if moved == 0 && len(resize.Expansions) == 0 && len(resize.Fields) > 0 {
		return "the set is created again around its pods with the changes " + strings.Join(api.Words(resize.Fields), ", ")
	}
	grow := inPlace(resize, false)
	switch {
	case resize.GrowsWhileStopped() && grow != "":
		return grow + ", then " + text.Number(moved, "will grow while its member is stopped", "will grow while their members are stopped")
	case resize.GrowsWhileStopped():
		return claims(moved, "will grow while its member is stopped", "will grow while their members are stopped")
	case moved == 0 && grow == "":
		return "the set is created again with its new templates"
	case grow == "":
		return claims(moved, "will be copied to a new volume", "will be copied to new volumes")
	case moved == 0:
		return grow
	}
	return grow + ", then " + text.Number(moved, "will be copied to a new volume", "will be copied to new volumes")
}

// inPlace counts the claims that grow in place, that get another VolumeAttributesClass, and whose volume already has the size: they stop
// requesting more than the storage can give, or only their file system grows. The text is in the past tense if the resize is done, else in
// the future tense. It is empty if there are no such claims.
func inPlace(resize *api.Resize, done bool) string {
	grown, changed, settled := 0, 0, 0
	for i := range resize.Expansions {
		switch e := &resize.Expansions[i]; {
		case e.To.Cmp(e.From) > 0:
			grown++
		case e.Attributes == nil:
			settled++
		}
		if resize.Expansions[i].Attributes != nil {
			changed++
		}
	}
	var parts []string
	add := func(n int, hasOne, haveMany, willOne, willMany string) {
		switch {
		case n > 0 && done:
			parts = append(parts, claims(n, hasOne, haveMany))
		case n > 0:
			parts = append(parts, claims(n, "will "+willOne, "will "+willMany))
		}
	}
	add(grown, "has grown", "have grown", "grow on its volume", "grow on their volumes")
	add(settled, "has the requested size on its volume", "have the requested size on their volumes", "have the requested size on its volume",
		"have the requested size on their volumes")
	add(changed, "has another VolumeAttributesClass", "have another VolumeAttributesClass", "get another VolumeAttributesClass",
		"get another VolumeAttributesClass")
	return strings.Join(parts, ", ")
}

// claims returns a number of claims with the predicate that agrees with it.
func claims(n int, one, many string) string {
	return text.Number(n, "claim "+one, "claims "+many)
}

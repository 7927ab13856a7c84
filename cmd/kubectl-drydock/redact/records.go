package redact

import "drydock.dev/shared/api"

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

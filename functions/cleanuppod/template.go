package cleanuppod

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// template returns the set's cleanup pod template, or the problem with it. The API server's answer is known only while the template is
// new.
func (in Input) template(record *api.Cleanup) (*corev1.PodTemplateSpec, *cleanup.Problem) {
	if in.isRefused(record) {
		return nil, &cleanup.Problem{Reason: record.Reason, Message: record.Message}
	}
	template, problem := cleanup.Template(in.Set)
	if problem == nil && in.PodRejected != "" {
		problem = &cleanup.Problem{Reason: api.TemplateInvalid,
			Message: "the API server would refuse the cleanup pod: " + text.Clip(in.PodRejected, maxQuotedBytes)}
	}
	return template, problem
}

// isRefused reports whether this template was refused and no retry is requested.
func (in Input) isRefused(record *api.Cleanup) bool {
	return record != nil && record.Phase == api.Refused && record.Request == cleanup.Digest(in.Set) && !in.isRetried(record)
}

// newTemplate returns the template if the set's record does not hold a result for it yet, else nil.
func (in Input) newTemplate() (*corev1.PodTemplateSpec, *cleanup.Problem) {
	record, err := api.LoadCleanup(in.Set)
	asked := statefulset.CleanupAsked(in.Set) && statefulset.Managed(in.Set) && in.Set.DeletionTimestamp == nil
	judged := record != nil && record.Request == cleanup.Digest(in.Set) && (record.Phase != api.Refused || in.isRefused(record))
	if err != nil || !asked || judged {
		return nil, nil
	}
	return cleanup.Template(in.Set)
}

package cleanuppod

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/statefulset"
)

// template is the set's, if nothing is wrong with it. What the API server said about it is known while it is new.
func (in Input) template(doc *api.Cleanup) (*corev1.PodTemplateSpec, *cleanup.Problem) {
	if in.refused(doc) {
		return nil, &cleanup.Problem{Reason: doc.Reason, Message: doc.Message}
	}
	template, problem := cleanup.Template(in.Set)
	if problem == nil && in.Denied != "" {
		problem = &cleanup.Problem{Reason: api.TemplateInvalid, Message: "the API server would refuse the cleanup pod: " + clip(in.Denied)}
	}
	return template, problem
}

// refused reports whether the template was refused, and neither it nor anybody asks for another judgement.
func (in Input) refused(doc *api.Cleanup) bool {
	return doc != nil && doc.Phase == api.Refused && doc.Request == cleanup.Digest(in.Set) && !in.retried(doc)
}

// newTemplate is the template if the set's document does not tell yet that it was understood.
func (in Input) newTemplate() (*corev1.PodTemplateSpec, *cleanup.Problem) {
	doc, err := api.LoadCleanup(in.Set)
	asked := statefulset.CleanupAsked(in.Set) && statefulset.Managed(in.Set) && in.Set.DeletionTimestamp == nil
	judged := doc != nil && doc.Request == cleanup.Digest(in.Set) && (doc.Phase != api.Refused || in.refused(doc))
	if err != nil || !asked || judged {
		return nil, nil
	}
	return cleanup.Template(in.Set)
}

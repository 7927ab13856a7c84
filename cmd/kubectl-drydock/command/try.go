package command

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/forecast"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// try has the API server try a write, and not carry it out. It is asked first whether the user may do so: a policy that refuses and
// a right that is missing have the same code.
func (s *session) try(ctx context.Context, write plan.Action) forecast.Check {
	check := forecast.Check{Verb: write.Verb, Resource: write.Resource, Name: write.Name}
	allowed, err := s.may(ctx, write)
	switch {
	case err != nil:
		check.Outcome, check.Message = forecast.Unchecked, "whether you may is not known: "+printable(err.Error())
		return check
	case !allowed:
		check.Outcome, check.Message = forecast.Unchecked, fmt.Sprintf("you may not %s %s in namespace %s", write.Verb, write.Resource,
			write.Namespace)
		return check
	}
	err = s.client.Try(ctx, write)
	check.Outcome, check.Message = outcome(err)
	return check
}

// outcome sorts the API server's answer, with its words if it does not accept.
func outcome(err error) (forecast.Outcome, string) {
	trial := kube.TrialOf(err)
	if trial == kube.Accepted {
		return forecast.Accepted, ""
	}
	return forecast.Outcome(trial), printable(err.Error())
}

// warnings are the API server's warnings, each text once, for example that the pods of a Job would be refused.
type warnings struct{ texts []string }

// HandleWarningHeader takes a warning in (RFC 9111; 299 is the code that the API server gives its own).
func (w *warnings) HandleWarningHeader(code int, _, text string) {
	if text = "the API server says: " + printable(text); code == 299 && !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

// may asks whether the user may make the write.
func (s *session) may(ctx context.Context, write plan.Action) (bool, error) {
	group := kube.GroupOf(write.Resource)
	attributes := &authorizationv1.ResourceAttributes{Namespace: write.Namespace, Verb: string(write.Verb),
		Group: group.Group, Version: group.Version, Resource: string(write.Resource)}
	if write.Verb != plan.VerbCreate {
		attributes.Name = write.Name
	}
	key := fmt.Sprint(*attributes)
	if allowed, known := s.rights[key]; known {
		return allowed, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	if err := s.raw.post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, review); err != nil {
		return false, err
	}
	s.rights[key] = review.Status.Allowed
	return review.Status.Allowed, nil
}

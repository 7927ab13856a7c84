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
	"drydock.dev/shared/text"
)

// dryRun has the API server try a write in a dry run. It first checks the user's right to the write, because a refusal by a policy and a
// missing right have the same code.
func (s *session) dryRun(ctx context.Context, write plan.Action) forecast.Check {
	check := forecast.Check{Verb: write.Verb, Resource: write.Resource, Name: write.Name}
	allowed, err := s.isAllowed(ctx, write)
	switch {
	case err != nil:
		check.Outcome, check.Message = forecast.Unchecked, "your right to it is unknown: "+text.Printable(err.Error())
		return check
	case !allowed:
		check.Outcome, check.Message = forecast.Unchecked, fmt.Sprintf("you may not %s %s in namespace %s", write.Verb, write.Resource,
			write.Namespace)
		return check
	}
	err = s.client.DryRun(ctx, write)
	check.Outcome, check.Message = outcome(err)
	return check
}

// outcome classifies the API server's answer, and returns its message if it does not accept the write.
func outcome(err error) (forecast.Outcome, string) {
	trial := kube.DryRunResultOf(err)
	if trial == kube.Accepted {
		return forecast.Accepted, ""
	}
	return forecast.Outcome(trial), text.Printable(err.Error())
}

// warnings collects the API server's warnings, each text once. One of them says that the pods of a Job would be refused.
type warnings struct{ texts []string }

// HandleWarningHeader adds a warning of the API server, which has code 299. Code and header are those of RFC 9111.
func (w *warnings) HandleWarningHeader(code int, _, warning string) {
	if warning = "the API server says: " + text.Printable(warning); code == 299 && !slices.Contains(w.texts, warning) {
		w.texts = append(w.texts, warning)
	}
}

// isAllowed reports whether the user has the right to the write.
func (s *session) isAllowed(ctx context.Context, write plan.Action) (bool, error) {
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

package kube

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

const (
	tokenReviews  plan.Resource = "tokenreviews"
	accessReviews plan.Resource = "subjectaccessreviews"
)

// MayPatchSet returns nil if the token is valid for the API server and its owner may patch the StatefulSet, or every StatefulSet of the
// namespace where name is empty. The error is permanent if not; it does not quote the token.
func (c *Client) MayPatchSet(ctx context.Context, token, namespace, name string) error {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := c.review(ctx, tokenReviews, who); err != nil {
		return fmt.Errorf("reviewing the sender's token: %w", err)
	}
	if !who.Status.Authenticated {
		return fault.Permanent(errors.New("the API server does not accept the token of the event's sender; send one that is valid"))
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Group: "apps", Version: "v1", Resource: "statefulsets", Namespace: namespace, Name: name},
	}}
	if err := c.review(ctx, accessReviews, may); err != nil {
		return fmt.Errorf("asking whether %s may patch StatefulSet %s/%s: %w", user.Username, namespace, name, err)
	}
	if !may.Status.Allowed {
		return fault.Permanent(fmt.Errorf("user %s may not patch StatefulSet %s/%s, so the event is refused; grant the right or send it as another user",
			user.Username, namespace, name))
	}
	return nil
}

// review creates an object that only asks, and reads the answer into it. A missing right of Drydock's own is no verdict on the sender.
func (c *Client) review(ctx context.Context, resource plan.Resource, object runtime.Object) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	return client.Post().Resource(string(resource)).VersionedParams(&metav1.CreateOptions{}, parameters).Body(object).Do(ctx).Into(object)
}

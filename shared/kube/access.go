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

// MayPatchSet returns nil if the API server accepts the token and its user may patch the StatefulSet. An empty name stands for every
// StatefulSet of the namespace. Otherwise the error is permanent. It does not quote the token.
func (c *Client) MayPatchSet(ctx context.Context, token, namespace, name string) error {
	sender := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := c.review(ctx, tokenReviews, sender); err != nil {
		return fmt.Errorf("reviewing the sender's token: %w", err)
	}
	if !sender.Status.Authenticated {
		return fault.Permanent(errors.New("the API server does not accept the token of the event's sender; send a valid token"))
	}
	user := sender.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "patch", Group: "apps", Version: "v1", Resource: "statefulsets", Namespace: namespace, Name: name,
		},
	}}
	if err := c.review(ctx, accessReviews, access); err != nil {
		return fmt.Errorf("asking whether %s may patch StatefulSet %s/%s: %w", user.Username, namespace, name, err)
	}
	if !access.Status.Allowed {
		return fault.Permanent(fmt.Errorf("user %s may not patch StatefulSet %s/%s, so the event is refused; grant the right or send the event "+
			"as another user", user.Username, namespace, name))
	}
	return nil
}

// review creates a review object and reads the answer into it. If Drydock lacks the right to ask, that says nothing about the sender.
func (c *Client) review(ctx context.Context, resource plan.Resource, object runtime.Object) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	return client.Post().Resource(string(resource)).VersionedParams(&metav1.CreateOptions{}, parameters).Body(object).Do(ctx).Into(object)
}

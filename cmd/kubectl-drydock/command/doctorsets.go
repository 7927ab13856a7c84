package command

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
)

const (
	authorization = "authorization.k8s.io"
	reviews       = "/apis/" + authorization + "/v1/"
)

// pullErrors are the reasons of containers whose image cannot be pulled.
var pullErrors = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}

// attributes returns the right as the API server takes it in a review.
func attributes(r doctor.Right) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		Namespace: r.Namespace}
}

// lackingRights returns the rights that the user does not have.
func (s *session) lackingRights(ctx context.Context, needed []doctor.Right) doctor.Answer[[]doctor.Right] {
	var answer doctor.Answer[[]doctor.Right]
	for _, right := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authorization + "/v1", Kind: "SelfSubjectAccessReview"},
			Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes(right)}}
		if err := s.raw.post(ctx, reviews+"selfsubjectaccessreviews", review, review); err != nil {
			return unread[[]doctor.Right](err, doctor.Right{Verb: "create", Group: authorization, Resource: "selfsubjectaccessreviews"})
		}
		if !review.Status.Allowed {
			answer.Value = append(answer.Value, right)
		}
	}
	return answer
}

// owners reads which kinds control the opted-in sets, and asks whether pause-owner has its rights to them, whether their namespaces allow
// pauses, and whether their labels last. It stores the mistake in the rows of owners, if they have one.
func (s *session) owners(ctx context.Context, f *doctor.Facts) {
	registry, err := owners.LoadRegistry(f.Settings.Value["DRYDOCK_OWNERS"])
	if err != nil {
		f.OwnersMistake = strings.ReplaceAll(err.Error(), "\n", "; ")
		return
	}
	sets := listed[appsv1.StatefulSet](ctx, s, kindOf("apps", "v1", "statefulsets"), s.namespace,
		metav1.ListOptions{LabelSelector: api.ManagedLabel + "=true"})
	f.Owners = doctor.Convert(sets, func(all []appsv1.StatefulSet) []doctor.Owner { return doctor.OwnersOf(all, registry) })
	consents := map[string]api.OwnerConsent{}
	for i := range f.Owners.Value {
		o := &f.Owners.Value[i]
		for _, right := range o.Rights() {
			allowed, err := s.mayPauseOwner(ctx, right)
			if err != nil {
				f.Owners = unread[[]doctor.Owner](err, doctor.Right{Verb: "create", Group: authorization, Resource: "subjectaccessreviews"})
				return
			}
			if !allowed {
				o.Lacking = append(o.Lacking, right.Verb)
			}
		}
		if _, known := consents[o.Namespace]; !known {
			consents[o.Namespace] = s.consentOf(ctx, o.Namespace)
		}
		o.Forbids, o.ForbidsUpdates = !consents[o.Namespace].AllowsPause(), o.Updates && !consents[o.Namespace].AllowsUpdate()
	}
	for i := range sets.Value {
		if set := &sets.Value[i]; s.optInAdvice(ctx, registry, set) != "" {
			f.Unlabelled = append(f.Unlabelled, doctor.Unlabelled{Set: set.Namespace + "/" + set.Name, Command: registry.OptInCommand(set)})
		}
	}
}

// consentOf returns the consent of the namespace. One that the user may not read counts as given.
func (s *session) consentOf(ctx context.Context, name string) api.OwnerConsent {
	namespace := one[corev1.Namespace](ctx, s, kindOf("", "v1", "namespaces"), "", name)
	if !namespace.Known() || namespace.Value == nil {
		return api.ConsentToUpdate
	}
	return api.ConsentOf(namespace.Value.Labels)
}

// mayPauseOwner reports whether the account of pause-owner has the right.
func (s *session) mayPauseOwner(ctx context.Context, right doctor.Right) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorization + "/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes(right),
			User: "system:serviceaccount:" + api.HomeNamespace + ":" + string(api.PauseOwner),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + api.HomeNamespace,
				"system:authenticated"}}}
	err := s.raw.post(ctx, reviews+"subjectaccessreviews", review, review)
	return review.Status.Allowed, err
}

// images reads the allowed images of movers, and the pods that wait for their image.
func (s *session) images(ctx context.Context) doctor.Images {
	role := one[rbacv1.Role](ctx, s, kindOf(rbacv1.GroupName, "v1", "roles"), api.HomeNamespace, "drydock-mover-image")
	waiting := s.waiting(ctx, api.HomeNamespace, "")
	if movers := s.waiting(ctx, s.namespace, api.OperationLabel); waiting.Known() && movers.Known() {
		waiting.Value = slices.Concat(waiting.Value, movers.Value)
	} else if waiting.Known() {
		waiting = movers
	}
	return doctor.Images{Waiting: waiting, Allowed: doctor.Convert(role, allowedImages)}
}

// allowedImages returns the images that the Role allows. It returns none if there is no Role.
func allowedImages(role *rbacv1.Role) []string {
	var images []string
	if role != nil {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "images") {
				images = append(images, rule.ResourceNames...)
			}
		}
	}
	return images
}

// waiting reads the pods with a container whose image cannot be pulled.
func (s *session) waiting(ctx context.Context, namespace, selector string) doctor.Answer[[]doctor.Waiting] {
	pods := listed[corev1.Pod](ctx, s, kindOf("", "v1", "pods"), namespace, metav1.ListOptions{LabelSelector: selector})
	return doctor.Convert(pods, func(all []corev1.Pod) []doctor.Waiting {
		var waiting []doctor.Waiting
		for i := range all {
			pod := &all[i]
			for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
				if c.State.Waiting != nil && slices.Contains(pullErrors, c.State.Waiting.Reason) {
					waiting = append(waiting, doctor.Waiting{Namespace: pod.Namespace, Pod: pod.Name, Image: c.Image, Reason: c.State.Waiting.Reason})
					break
				}
			}
		}
		return waiting
	})
}

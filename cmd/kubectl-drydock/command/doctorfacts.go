package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"

	"drydock.dev/cmd/kubectl-drydock/doctor"
	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
)

// examination reads the facts that doctor judges.
type examination struct{ *session }

func (s *session) examination() examination { return examination{s} }

// facts reads what doctor needs. It returns an error only if the API server does not answer.
func (e examination) facts(ctx context.Context, now time.Time) (doctor.Facts, error) {
	body, found, err := e.raw.get(ctx, "/version")
	var server version.Info
	if err == nil && found {
		err = json.Unmarshal(body, &server)
	}
	if err == nil && server.GitVersion == "" {
		err = errors.New("the answer has no version. Check that the address is that of an API server")
	}
	if err != nil {
		return doctor.Facts{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	expected, err := install.Expected()
	if err != nil {
		return doctor.Facts{}, err
	}
	f := doctor.Facts{Now: now, Namespace: e.namespace, Expected: expected, Server: doctor.Server{
		Version:           server.GitVersion,
		Mutating:          e.mutatingVersion(ctx),
		AttributesClasses: e.offers(ctx, "storage.k8s.io/v1", "volumeattributesclasses"),
		Scalers:           e.offers(ctx, "drydock.dev/v1alpha1", "scalers"),
	}}
	f.Settings = e.settings(ctx)
	f.Installed = e.installed(ctx)
	f.Tick = e.ticks(ctx, f.Installed)
	f.Policies = e.policies(ctx, f.Server.Mutating.Value)
	f.Accounts = e.accounts(ctx)
	f.Rights = e.lackingRights(ctx, doctor.UserRights(e.namespace, len(f.Installed.Brokers.Value) > 0))
	f.Classes = e.classes(ctx)
	f.Images = e.images(ctx)
	e.owners(ctx, &f)
	return f, ctx.Err()
}

// mutatingVersion returns the newest API version of MutatingAdmissionPolicy (kubernetes KEP-3962) that the API server offers.
func (e examination) mutatingVersion(ctx context.Context) doctor.Answer[string] {
	for _, version := range []string{"v1", "v1beta1"} {
		offered := e.offers(ctx, admission+"/"+version, "mutatingadmissionpolicies")
		if offered.Value || !offered.Known() {
			return doctor.Convert(offered, func(bool) string { return version })
		}
	}
	return doctor.Answer[string]{}
}

func (e examination) settings(ctx context.Context) doctor.Answer[map[string]string] {
	found := one[corev1.ConfigMap](ctx, e.session, kindOf("", "v1", "configmaps"), api.HomeNamespace, "drydock-settings")
	return doctor.Convert(found, func(c *corev1.ConfigMap) map[string]string {
		if c == nil {
			return nil
		}
		data := map[string]string{} // an empty ConfigMap is not an absent one
		maps.Copy(data, c.Data)
		return data
	})
}

func (e examination) accounts(ctx context.Context) doctor.Accounts {
	a := doctor.Accounts{
		Accounts:     names(ctx, e.session, kindOf("", "v1", "serviceaccounts"), api.HomeNamespace),
		ClusterRoles: names(ctx, e.session, kindOf(rbacv1.GroupName, "v1", "clusterroles"), ""),
		Bindings:     names(ctx, e.session, kindOf(rbacv1.GroupName, "v1", "clusterrolebindings"), ""),
	}
	if e.namespace != "" {
		a.NamespaceBindings = names(ctx, e.session, kindOf(rbacv1.GroupName, "v1", "rolebindings"), e.namespace)
	}
	return a
}

func (e examination) classes(ctx context.Context) doctor.Answer[[]doctor.Class] {
	found := listed[storagev1.StorageClass](ctx, e.session, kindOf("storage.k8s.io", "v1", "storageclasses"), "", metav1.ListOptions{})
	return doctor.Convert(found, func(all []storagev1.StorageClass) []doctor.Class {
		var classes []doctor.Class
		for i := range all {
			c := &all[i]
			classes = append(classes, doctor.Class{Name: c.Name, Expandable: c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion,
				Default: c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"})
		}
		return classes
	})
}

const admission = "admissionregistration.k8s.io"

// policyObject is the part of a ValidatingAdmissionPolicy or its binding that doctor reads.
type policyObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

func (o *policyObject) binding() doctor.Binding {
	policy, _, _ := unstructured.NestedString(o.Spec, "policyName")
	actions, _, _ := unstructured.NestedStringSlice(o.Spec, "validationActions")
	return doctor.Binding{Policy: policy, Denies: slices.Contains(actions, string(admissionv1.Deny))}
}

func (e examination) policies(ctx context.Context, mutating string) doctor.Policies {
	var p doctor.Policies
	if mutating != "" {
		apply := one[metav1.PartialObjectMetadata](ctx, e.session, kindOf(admission, mutating, "mutatingadmissionpolicies"), "",
			"drydock-templates")
		p.Apply = doctor.Convert(apply, func(o *metav1.PartialObjectMetadata) bool { return o != nil })
	}
	policies := listed[policyObject](ctx, e.session, kindOf(admission, "v1", "validatingadmissionpolicies"), "", metav1.ListOptions{})
	p.Validating = doctor.Convert(policies, func(all []policyObject) []string {
		var names []string
		for i := range all {
			names = append(names, all[i].Metadata.Name)
		}
		return names
	})
	bindings := listed[policyObject](ctx, e.session, kindOf(admission, "v1", "validatingadmissionpolicybindings"), "", metav1.ListOptions{})
	p.Bindings = doctor.Convert(bindings, func(all []policyObject) []doctor.Binding {
		var bindings []doctor.Binding
		for i := range all {
			bindings = append(bindings, all[i].binding())
		}
		return bindings
	})
	p.Different = different(map[string][]policyObject{"ValidatingAdmissionPolicy": policies.Value,
		"ValidatingAdmissionPolicyBinding": bindings.Value})
	return p
}

// different returns the policies whose text in the cluster, or that of their binding, is not the text of this version. The map has the
// cluster's objects by kind. Missing ones are another finding.
func different(live map[string][]policyObject) doctor.Answer[[]string] {
	manifests, err := install.Policies()
	if err != nil {
		return doctor.Answer[[]string]{Failed: err.Error()}
	}
	var names []string
	for _, manifest := range manifests {
		for _, o := range live[manifest.GetKind()] {
			if o.Metadata.Name == manifest.GetName() && install.Differs(manifest.Object["spec"], o.Spec) {
				names = append(names, manifest.GetName())
			}
		}
	}
	slices.Sort(names)
	return doctor.Answer[[]string]{Value: slices.Compact(names)}
}

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
func (e examination) lackingRights(ctx context.Context, needed []doctor.Right) doctor.Answer[[]doctor.Right] {
	var answer doctor.Answer[[]doctor.Right]
	for _, right := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authorization + "/v1", Kind: "SelfSubjectAccessReview"},
			Spec:     authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes(right)}}
		if err := e.raw.post(ctx, reviews+"selfsubjectaccessreviews", review, review); err != nil {
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
func (e examination) owners(ctx context.Context, f *doctor.Facts) {
	registry, err := owners.LoadRegistry(f.Settings.Value["DRYDOCK_OWNERS"])
	if err != nil {
		f.OwnersMistake = strings.ReplaceAll(err.Error(), "\n", "; ")
		return
	}
	sets := listed[appsv1.StatefulSet](ctx, e.session, kindOf("apps", "v1", "statefulsets"), e.namespace,
		metav1.ListOptions{LabelSelector: api.ManagedLabel + "=true"})
	f.Owners = doctor.Convert(sets, func(all []appsv1.StatefulSet) []doctor.Owner { return doctor.OwnersOf(all, registry) })
	consents := map[string]api.OwnerConsent{}
	for i := range f.Owners.Value {
		o := &f.Owners.Value[i]
		for _, right := range o.Rights() {
			allowed, err := e.mayPauseOwner(ctx, right)
			if err != nil {
				f.Owners = unread[[]doctor.Owner](err, doctor.Right{Verb: "create", Group: authorization, Resource: "subjectaccessreviews"})
				return
			}
			if !allowed {
				o.Lacking = append(o.Lacking, right.Verb)
			}
		}
		if _, known := consents[o.Namespace]; !known {
			consents[o.Namespace] = e.consentOf(ctx, o.Namespace)
		}
		o.Forbids, o.ForbidsUpdates = !consents[o.Namespace].AllowsPause(), o.Updates && !consents[o.Namespace].AllowsUpdate()
	}
	for i := range sets.Value {
		if set := &sets.Value[i]; e.optInAdvice(ctx, registry, set) != "" {
			f.Unlabelled = append(f.Unlabelled, doctor.Unlabelled{Set: set.Namespace + "/" + set.Name, Command: registry.OptInCommand(set)})
		}
	}
}

// consentOf returns the consent of the namespace. One that the user may not read counts as given.
func (e examination) consentOf(ctx context.Context, name string) api.OwnerConsent {
	namespace := one[corev1.Namespace](ctx, e.session, kindOf("", "v1", "namespaces"), "", name)
	if !namespace.Known() || namespace.Value == nil {
		return api.ConsentToUpdate
	}
	return api.ConsentOf(namespace.Value.Labels)
}

// mayPauseOwner reports whether the account of pause-owner has the right.
func (e examination) mayPauseOwner(ctx context.Context, right doctor.Right) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorization + "/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes(right),
			User: "system:serviceaccount:" + api.HomeNamespace + ":" + string(api.PauseOwner),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + api.HomeNamespace,
				"system:authenticated"}}}
	err := e.raw.post(ctx, reviews+"subjectaccessreviews", review, review)
	return review.Status.Allowed, err
}

// images reads the allowed images of movers, and the pods that wait for their image.
func (e examination) images(ctx context.Context) doctor.Images {
	role := one[rbacv1.Role](ctx, e.session, kindOf(rbacv1.GroupName, "v1", "roles"), api.HomeNamespace, "drydock-mover-image")
	waiting := e.waiting(ctx, api.HomeNamespace, "")
	if movers := e.waiting(ctx, e.namespace, api.OperationLabel); waiting.Known() && movers.Known() {
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
func (e examination) waiting(ctx context.Context, namespace, selector string) doctor.Answer[[]doctor.Waiting] {
	pods := listed[corev1.Pod](ctx, e.session, kindOf("", "v1", "pods"), namespace, metav1.ListOptions{LabelSelector: selector})
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

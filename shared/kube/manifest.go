package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// observeSet reads the StatefulSet once, as JSON. A set that is created again from it keeps the fields that this build does not know.
func (c *Client) observeSet(ctx context.Context, ref events.Ref, o *observation) error {
	text, err := c.getJSON(ctx, plan.StatefulSets, ref.Namespace, ref.Name)
	if err != nil || text == nil {
		return err
	}
	if len(text) > api.MaxSet {
		return fault.Permanent(fmt.Errorf("StatefulSet %s has %d bytes as JSON, Drydock works with at most %d; shorten its pod template or "+
			"its annotations", ref, len(text), api.MaxSet))
	}
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal(text, set); err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", ref, err)
	}
	o.Set, o.SetJSON = set, text
	o.kept.Add(int64(len(text)))
	joinTrace(ctx, set)
	return nil
}

// replaced returns the claims that restore will replace: their members are being swapped, or the claims are being deleted by any client. If
// the set is gone or has lost its record, the journals name the claims.
func replaced(o *world.Observed) []*corev1.PersistentVolumeClaim {
	named, swapped := o.ClaimNameFilter(), map[string]bool{}
	if record, err := o.Record(); err == nil && record != nil {
		for _, member := range record.Members {
			for _, move := range member.Claims {
				swapped[move.Claim] = swapped[move.Claim] || member.Phase == api.MemberSwapping
			}
		}
	}
	var all []*corev1.PersistentVolumeClaim
	for _, claim := range o.Claims {
		included := swapped[claim.Name]
		if claim.DeletionTimestamp != nil {
			included = named(claim.Name) && (len(o.Journals) > 0 || slices.Contains(claim.Finalizers, api.FreezeFinalizer))
		}
		if included {
			all = append(all, claim)
		}
	}
	return all
}

// observeManifests reads the claims that will be replaced, as JSON. restore creates their successors from them. A claim whose name has a
// reserved volume already has its successor. One list returns all claims with the operation's label. A claim that lost the label is listed
// by its name.
func (c *Client) observeManifests(ctx context.Context, namespace string, o *observation) error {
	wanted := map[string]bool{}
	for _, claim := range replaced(o.Observed) {
		if !reservedFor(o.Observed, claim.Name) {
			wanted[claim.Name] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	o.ClaimManifests = map[string]*unstructured.Unstructured{}
	if err := c.listManifests(ctx, namespace, metav1.ListOptions{LabelSelector: api.OperationLabel}, wanted, o.Observed); err != nil {
		return err
	}
	for name := range wanted {
		if o.ClaimManifests[name] == nil {
			if err := c.listManifests(ctx, namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + name}, wanted, o.Observed); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawPage is the number of claims in a page of JSON, which takes several times the memory of the same page in protobuf.
const rawPage = 5

// listManifests lists claims as JSON and keeps the wanted ones.
func (c *Client) listManifests(
	ctx context.Context, namespace string, options metav1.ListOptions, wanted map[string]bool, o *world.Observed,
) error {
	client, err := c.rest(plan.Claims)
	if err != nil {
		return err
	}
	for options.Limit = rawPage; ; {
		text, err := answerOf(ctx, client.Get().Namespace(namespace).Resource(plural(plan.Claims)).VersionedParams(&options, parameters))
		if err != nil {
			return fmt.Errorf("listing %s: %w", plan.Claims, err)
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return fmt.Errorf("listing %s: %w", plan.Claims, err)
		}
		for _, item := range page.Items {
			manifest, err := api.ParseManifest(item, "v1", "PersistentVolumeClaim")
			if err != nil {
				return err
			}
			if wanted[manifest.GetName()] {
				o.ClaimManifests[manifest.GetName()] = manifest
			}
		}
		if options.Continue = page.Metadata.Continue; options.Continue == "" {
			return nil
		}
	}
}

// reservedFor reports whether a volume is reserved for the claim's name.
func reservedFor(o *world.Observed, claim string) bool {
	for _, volume := range o.Volumes {
		if ref := volume.Spec.ClaimRef; ref != nil && ref.Name == claim && volume.Annotations[api.ClaimManifestAnnotation] != "" {
			return true
		}
	}
	return false
}

// getJSON reads an object as JSON. It returns nil if the object does not exist.
func (c *Client) getJSON(ctx context.Context, resource plan.Resource, namespace, name string) ([]byte, error) {
	client, err := c.rest(resource)
	if err != nil {
		return nil, err
	}
	text, err := answerOf(ctx, client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", resource, name, err)
	}
	return text, nil
}

// answerOf sends the request and returns the answer as JSON.
func answerOf(ctx context.Context, request *rest.Request) ([]byte, error) {
	result := request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, fault.FromAPI(err)
	}
	return result.Raw()
}

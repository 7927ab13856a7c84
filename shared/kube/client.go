// Package kube reaches the API server: a REST client for the API groups that Drydock uses, and the reads that several functions share. It
// has no informers and no discovery, because a function lives for one event, and a user's request may wait for its cold start.
package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/telemetry"
)

// Resources that Drydock only reads, in addition to those of package plan.
const (
	Attachments       plan.Resource = "volumeattachments"
	StorageClasses    plan.Resource = "storageclasses"
	AttributesClasses plan.Resource = "volumeattributesclasses"
	Namespaces        plan.Resource = "namespaces"
	Nodes             plan.Resource = "nodes"
	Quotas            plan.Resource = "resourcequotas"
	LimitRanges       plan.Resource = "limitranges"
)

// Resources that only answer questions. They store nothing.
const (
	tokenReviews  plan.Resource = "tokenreviews"
	accessReviews plan.Resource = "subjectaccessreviews"
)

var codecs, parameters = newCodecs()

func newCodecs() (serializer.CodecFactory, runtime.ParameterCodec) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, storagev1.AddToScheme, autoscalingv2.AddToScheme, policyv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(s), runtime.NewParameterCodec(s)
}

// GroupOf returns the API group of a resource.
func GroupOf(resource plan.Resource) schema.GroupVersion {
	if custom, ok := resource.Custom(); ok {
		return custom.GroupVersion()
	}
	switch resource {
	case plan.StatefulSets, plan.ControllerRevisions:
		return appsv1.SchemeGroupVersion
	case plan.Jobs:
		return batchv1.SchemeGroupVersion
	case plan.Autoscalers:
		return autoscalingv2.SchemeGroupVersion
	case tokenReviews:
		return authenticationv1.SchemeGroupVersion
	case accessReviews:
		return authorizationv1.SchemeGroupVersion
	case Attachments, StorageClasses, AttributesClasses:
		return storagev1.SchemeGroupVersion
	}
	return corev1.SchemeGroupVersion
}

// plural returns the resource's name in a URL.
func plural(resource plan.Resource) string {
	if custom, ok := resource.Custom(); ok {
		return custom.Resource
	}
	return string(resource)
}

// Client reaches the API server. Its methods classify errors for package fault.
type Client struct {
	config *rest.Config
	http   func() (*http.Client, error)
	mu     sync.Mutex
	groups map[schema.GroupVersion]*rest.RESTClient
}

// Config returns the config for the API server from $KUBECONFIG, or from the pod's service account.
func Config() (*rest.Config, error) {
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return clientcmd.BuildConfigFromFlags("", path)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w; run in a pod with a service account, or set KUBECONFIG", err)
	}
	return config, nil
}

// Impersonate returns a config that impersonates the function's account. The caller needs the right to impersonate that account, and then
// has only the account's rights.
func Impersonate(config *rest.Config, function api.Function) *rest.Config {
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + api.HomeNamespace + ":" + string(function)}
	return as
}

// NewClient returns a client that connects at its first call.
func NewClient(config *rest.Config) *Client {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no throttle unless the config has one
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.UserAgent = cmp.Or(config.UserAgent, userAgent)
	config.Wrap(telemetry.Transport)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return polite{next, &busy} }) // telemetry does not measure the pauses
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return newSerialTurns(next) })
	return &Client{
		config: config,
		http:   sync.OnceValues(func() (*http.Client, error) { return rest.HTTPClientFor(config) }),
		groups: map[schema.GroupVersion]*rest.RESTClient{},
	}
}

func (c *Client) rest(resource plan.Resource) (*rest.RESTClient, error) {
	gv := GroupOf(resource)
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.groups[gv]; client != nil {
		return client, nil
	}
	shared, err := c.http()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(c.config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if _, custom := resource.Custom(); !custom { // custom resources have only JSON
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(config, shared)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", gv, err)
	}
	c.groups[gv] = client
	return client, nil
}

// Get reads an object. It returns false if the object does not exist.
func (c *Client) Get(ctx context.Context, resource plan.Resource, namespace, name string, into runtime.Object) (bool, error) {
	client, err := c.rest(resource)
	if err != nil {
		return false, err
	}
	err = client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).Do(ctx).Into(into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", resource, name, fault.FromAPI(err))
	}
	if set, ok := into.(*appsv1.StatefulSet); ok {
		joinTrace(ctx, set)
	}
	return true, nil
}

// maxLogLineBytes bounds what the kubelet sends of a line. A line of a mover has less than 1 KiB.
const maxLogLineBytes = 16 << 10

// LastLogLine returns the last line that a container printed, and when. Both are empty if it printed nothing.
func (c *Client) LastLogLine(ctx context.Context, namespace, pod, container string) ([]byte, time.Time, error) {
	client, err := c.rest(plan.Pods)
	if err != nil {
		return nil, time.Time{}, err
	}
	lines, limit := int64(1), int64(maxLogLineBytes)
	raw, err := client.Get().Namespace(namespace).Resource(plural(plan.Pods)).Name(pod).SubResource("log").
		VersionedParams(&corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &limit, Timestamps: true},
			parameters).DoRaw(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("reading the log of pod %s: %w", pod, fault.FromAPI(err))
	}
	stamp, line, _ := bytes.Cut(raw, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil { // nothing was printed, or the runtime adds no time
		return raw, time.Time{}, nil // the line is enough
	}
	return line, at, nil
}

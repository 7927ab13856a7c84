package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// installer is the field manager of installed objects.
const installer = "drydock-install"

// releasedImage and releasedStandaloneImage are the images of the release, with their digests. cmd/release sets them with the linker. Other
// programs have none.
var releasedImage, releasedStandaloneImage string

// installing holds the state of kubectl drydock install and uninstall.
type installing struct {
	*tool
	options   install.Options
	mode      string
	templates bool
	dryRun    bool
	yes       bool
	// ignoreHelm removes objects although they name a Helm release.
	ignoreHelm bool
	timeout    time.Duration
}

func newInstall(t *tool) *cobra.Command {
	o := &installing{tool: t}
	c := &cobra.Command{
		Use:   "install",
		Short: "Install or upgrade Drydock",
		Long: "Apply the manifests of this version of Drydock to the cluster: the namespace drydock, accounts, roles, policies, and the\n" +
			"functions, in one Deployment (--mode standalone) or as Services of Knative (--mode knative). An installation of another version is\n" +
			"upgraded, and running operations continue. Settings in the ConfigMap drydock-settings that you have added stay.\n\n" +
			"The images are named by digest, so that no registry can serve other images later.",
		Example: "  kubectl drydock install --image example.com/drydock@sha256:… --standalone-image example.com/drydock-standalone@sha256:…\n" +
			"  kubectl drydock install --mode knative --image example.com/drydock@sha256:… --dry-run > drydock.yaml",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.install(c.Context()) },
	}
	c.Flags().StringVar(&o.mode, "mode", string(install.Standalone), "standalone or knative")
	c.Flags().StringVar(&o.options.Image, "image", releasedImage, "the image of the movers and, on Knative, of the functions")
	c.Flags().StringVar(&o.options.StandaloneImage, "standalone-image", releasedStandaloneImage,
		"the image drydock-standalone, for --mode standalone")
	c.Flags().BoolVar(&o.options.AllowTags, "allow-tags", false, "accept images without a digest")
	c.Flags().BoolVar(&o.templates, "edited-manifests", true, "turn edited volumeClaimTemplates into requests, if the API server can do that")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the manifests and change nothing")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "install without a question")
	c.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "the longest time to wait until the functions are ready")
	return c
}

func (o *installing) install(ctx context.Context) error {
	o.options.Mode = install.Mode(o.mode)
	if !slices.Contains([]install.Mode{install.Standalone, install.Knative}, o.options.Mode) {
		return fmt.Errorf("--mode %s does not exist. Use --mode standalone or --mode knative", o.mode)
	}
	if err := o.options.Check(); err != nil {
		return err
	}
	to, err := o.target()
	if err != nil {
		return err
	}
	if o.templates {
		if o.options.Templates, err = to.mutatingVersion(); err != nil {
			return err
		}
	}
	if !o.dryRun {
		if err := o.checkPresent(ctx, to); err != nil {
			return err
		}
	}
	objects, err := install.Render(o.options)
	if err != nil {
		return err
	}
	if o.dryRun {
		return printManifests(o.Out, objects)
	}
	question := fmt.Sprintf("Install Drydock (%s, %d objects) on the cluster %s?", o.options.Mode, len(objects), to.host)
	if err := o.consent(ctx, question, o.yes); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("%w (%s)", errTimeout, o.timeout))
	defer cancel()
	for _, object := range objects {
		if err := to.apply(ctx, object); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "%d objects are applied. Waiting until the functions are ready\n", len(objects))
	for _, object := range objects {
		if err := to.awaitReady(ctx, object); err != nil {
			return err
		}
	}
	fmt.Fprintln(o.Out, "Drydock is installed. Check it with: kubectl drydock doctor")
	return nil
}

// checkPresent looks at the present installation, if there is one. It refuses an installation of another kind, and notes the image of
// the functions that run.
func (o *installing) checkPresent(ctx context.Context, to *target) error {
	if err := to.refuseBoth(ctx, o.options.Mode); err != nil {
		return err
	}
	helm, err := to.helmRelease(ctx)
	if err != nil {
		return err
	}
	if helm != nil {
		return fmt.Errorf("the Helm release %s in the namespace %s has installed Drydock, and owns its objects. Upgrade it with helm "+
			"upgrade, or remove it first", helm.name, helm.namespace)
	}
	o.options.PreviousImage, err = to.moverImage(ctx, o.options.Image, o.options.AllowTags)
	return err
}

func printManifests(out io.Writer, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "---\n%s", text)
	}
	return nil
}

// target is the cluster to install on.
type target struct {
	host      string
	errOut    io.Writer // for the progress of a wait
	objects   dynamic.Interface
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

func (o *installing) target() (*target, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // an installation has about a hundred objects, with some requests for each. The API server has its own limits
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found, err := o.config.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	mapper, err := o.config.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	return &target{host: config.Host, errOut: o.ErrOut, objects: objects, discovery: found, mapper: mapper}, nil
}

// retryPeriod is the pause between two looks at an object that is not ready.
const retryPeriod = time.Second

// kindOf returns the client for the kind of the object. A kind that was just defined may be unknown for some seconds.
func (c *target) kindOf(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	for {
		mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				return c.objects.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
			}
			return c.objects.Resource(mapping.Resource), nil
		}
		if !meta.IsNoMatchError(err) || kind.Group != "drydock.dev" {
			return nil, missingKind(kind, err)
		}
		c.discovery.Invalidate()
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("waiting for kind %s: %w", kind.Kind, err)
		}
	}
}

// missingKind says what to install when the cluster does not know a kind.
func missingKind(kind schema.GroupVersionKind, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("this cluster does not know the kind %s of %s. For --mode knative, install Knative Serving and Eventing first",
			kind.Kind, kind.GroupVersion())
	}
	return fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
}

// apply creates or updates the object.
func (c *target) apply(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := c.kindOf(ctx, object)
	if err != nil {
		return err
	}
	_, err = client.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: installer, Force: true})
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// awaitReady waits until the Deployment or the Knative object is ready. Other objects need no time.
func (c *target) awaitReady(ctx context.Context, object *unstructured.Unstructured) error {
	condition := map[string]string{"Deployment": "Available", "Service": "Ready", "Trigger": "Ready"}[object.GetKind()]
	if condition == "" || object.GetAPIVersion() == "v1" {
		return nil
	}
	client, err := c.kindOf(ctx, object)
	if err != nil {
		return err
	}
	for {
		live, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err == nil && hasCondition(live, condition) {
			return nil
		}
		if pause(ctx) != nil {
			return fmt.Errorf("%s %s is not ready: %w. See: kubectl -n %s get pods", object.GetKind(), object.GetName(), context.Cause(ctx),
				install.Namespace)
		}
	}
}

// pause waits for the retryPeriod. It returns an error if the context ends.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(retryPeriod):
		return nil
	}
}

// hasCondition reports whether the condition of the latest spec is true.
func hasCondition(object *unstructured.Unstructured, name string) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return observed >= object.GetGeneration() && slices.ContainsFunc(conditions, func(item any) bool {
		condition, _ := item.(map[string]any)
		return condition["type"] == name && condition["status"] == "True"
	})
}

// mutatingVersion returns the newest API version of MutatingAdmissionPolicy (kubernetes KEP-3962) that the API server offers, or "".
func (c *target) mutatingVersion() (string, error) {
	kind := schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}
	for _, version := range []string{"v1", "v1beta1"} {
		switch _, err := c.mapper.RESTMapping(kind, version); {
		case err == nil:
			return version, nil
		case !meta.IsNoMatchError(err):
			return "", fmt.Errorf("asking the API server for MutatingAdmissionPolicies: %w", err)
		}
	}
	return "", nil
}

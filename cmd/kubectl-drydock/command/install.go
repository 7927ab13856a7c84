package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"drydock.dev/cmd/kubectl-drydock/install"
)

// installer is the field manager of installed objects.
const installer = "drydock-install"

// releasedImage and releasedEngineImage are the images of the release, with their digests. cmd/release sets them with the linker. Other
// programs have none.
var releasedImage, releasedEngineImage string

// installing holds the state of kubectl drydock install and uninstall.
type installing struct {
	*tool
	options   install.Options
	mode      string
	templates bool
	dryRun    bool
	yes       bool
	timeout   time.Duration
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
		Example: "  kubectl drydock install --image example.com/drydock@sha256:… --engine-image example.com/drydock-standalone@sha256:…\n" +
			"  kubectl drydock install --mode knative --image example.com/drydock@sha256:… --dry-run > drydock.yaml",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.install(c.Context()) },
	}
	c.Flags().StringVar(&o.mode, "mode", string(install.Standalone), "standalone or knative")
	c.Flags().StringVar(&o.options.Image, "image", releasedImage, "the image of the movers and, on Knative, of the functions")
	c.Flags().StringVar(&o.options.EngineImage, "engine-image", releasedEngineImage, "the image drydock-standalone, for --mode standalone")
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
	objects, err := install.Render(o.options)
	if err != nil {
		return err
	}
	if o.dryRun {
		return printManifests(o.Out, objects)
	}
	if err := to.refuseBoth(ctx, o.options.Mode); err != nil {
		return err
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
	fmt.Fprintln(o.Out, o.connection().in("Drydock is installed. Check it with: kubectl drydock doctor"))
	return nil
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
	return &target{host: config.Host, objects: objects, discovery: found, mapper: mapper}, nil
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

// markers are the objects by which an installation is recognized.
var markers = map[install.Mode]struct {
	resource schema.GroupVersionResource
	name     string
}{
	install.Standalone: {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "drydock-standalone"},
	install.Knative:    {schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}, "detect-resize"},
}

// installed reports whether Drydock is installed in the mode.
func (c *target) installed(ctx context.Context, mode install.Mode) (bool, error) {
	marker := markers[mode]
	_, err := c.objects.Resource(marker.resource).Namespace(install.Namespace).Get(ctx, marker.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an installation (%s): %w", mode, err)
	}
	return true, nil
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

// refuseBoth returns an error if Drydock is installed in the other mode. Both would work on the same sets.
func (c *target) refuseBoth(ctx context.Context, mode install.Mode) error {
	for other := range markers {
		if other == mode {
			continue
		}
		found, err := c.installed(ctx, other)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("an installation of Drydock with --mode %s exists, and both would work on the same sets. Remove it first: "+
				"kubectl drydock uninstall", other)
		}
	}
	return nil
}

func newUninstall(t *tool) *cobra.Command {
	o := &installing{tool: t}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Release everything, then remove Drydock",
		Long: "Wake every sleeping set, release every held member and resume every owner, as kubectl drydock release -A does. When nothing is\n" +
			"left, remove Drydock's functions, policies, roles and namespace. StatefulSets, claims and volumes stay.\n\n" +
			"The command stops before the removal if an operation still runs. Without --yes it only shows what it would do.",
		Example: "  kubectl drydock uninstall\n  kubectl drydock uninstall --yes",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.uninstall(c.Context()) },
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "release and remove")
	c.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "the longest time to wait until the objects are gone")
	return c
}

func (o *installing) uninstall(ctx context.Context) error {
	if err := (&releaser{tool: o.tool, all: true, yes: o.yes}).run(ctx); err != nil {
		return fmt.Errorf("%w. Nothing of Drydock was removed", err)
	}
	from, err := o.target()
	if err != nil {
		return err
	}
	objects, err := o.installedObjects(ctx, from)
	if err != nil {
		return err
	}
	if !o.yes {
		fmt.Fprintf(o.Out, "%d objects of Drydock would be removed. Add --yes to do it.\n", len(objects))
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("%w (%s)", errTimeout, o.timeout))
	defer cancel()
	kept := false
	for rank := install.RankFunctions; rank >= install.RankScope; rank-- {
		keptHere, err := from.removeRank(ctx, objects, rank)
		if err != nil {
			return err
		}
		kept = kept || keptHere
		if rank == install.RankFunctions {
			if err := o.releaseRest(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(o.Out, "Drydock is removed. StatefulSets, claims and volumes stay.")
	if kept {
		fmt.Fprintln(o.Out, o.connection().in("The kind Scaler stays, because there are Scalers. To remove it with all of them: "+
			"kubectl delete crd scalers.drydock.dev"))
	}
	return nil
}

// releaseRest releases what the functions have begun between the release and their end. Nothing else would do so any more. It returns an
// error before the policies and roles are removed, so that a new installation can end an operation.
func (o *installing) releaseRest(ctx context.Context) error {
	s, err := o.connect()
	if err != nil {
		return err
	}
	s.namespace = metav1.NamespaceAll
	held, err := s.holdings(ctx)
	if err == nil && len(held) > 0 {
		err = (&releaser{tool: o.tool, all: true, yes: true}).run(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w. Drydock's functions are removed, but not its policies and roles. Install Drydock again with kubectl drydock "+
			"install, wait for the end of the operations, and run this command again", err)
	}
	return nil
}

// installedObjects returns the objects of the installation, in the order in which they were applied.
func (o *installing) installedObjects(ctx context.Context, from *target) ([]*unstructured.Unstructured, error) {
	// The images do not matter for the removal.
	options := install.Options{Mode: install.Standalone, Image: "none:none", EngineImage: "none:none"}
	knative, err := from.installed(ctx, install.Knative)
	if err != nil {
		return nil, err
	}
	if knative {
		options.Mode = install.Knative
	}
	if options.Templates, err = from.mutatingVersion(); err != nil {
		return nil, err
	}
	return install.Render(options)
}

// removeRank deletes the objects of the rank, and waits until they are gone. The kind Scaler is kept as long as Scalers exist, because its
// removal would delete them.
func (c *target) removeRank(ctx context.Context, objects []*unstructured.Unstructured, rank int) (kept bool, err error) {
	var deleted []*unstructured.Unstructured
	for _, object := range slices.Backward(objects) {
		if install.Rank(object) != rank {
			continue
		}
		if used, err := c.definesUsedKind(ctx, object); err != nil {
			return kept, err
		} else if used {
			kept = true
			continue
		}
		if err := c.remove(ctx, object); err != nil {
			return kept, err
		}
		deleted = append(deleted, object)
	}
	for _, object := range deleted {
		if err := c.awaitGone(ctx, object); err != nil {
			return kept, err
		}
	}
	return kept, nil
}

// remove deletes the object, if it exists. What runs ends before its object does.
func (c *target) remove(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := c.kindOf(ctx, object)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if install.Rank(object) == install.RankFunctions {
		options.PropagationPolicy = ptr.To(metav1.DeletePropagationForeground)
	}
	if err := client.Delete(ctx, object.GetName(), options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// awaitGone waits until the object does not exist.
func (c *target) awaitGone(ctx context.Context, object *unstructured.Unstructured) error {
	client, err := c.kindOf(ctx, object)
	if err != nil {
		return err
	}
	for {
		_, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err):
			return fmt.Errorf("looking whether %s %s is gone: %w", object.GetKind(), object.GetName(), err)
		case pause(ctx) != nil:
			return fmt.Errorf("%s %s is still being deleted: %w", object.GetKind(), object.GetName(), context.Cause(ctx))
		}
	}
}

// definesUsedKind reports whether the object defines a kind of which objects exist.
func (c *target) definesUsedKind(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	if object.GetKind() != "CustomResourceDefinition" {
		return false, nil
	}
	scalers, err := c.objects.Resource(schema.GroupVersionResource{Group: "drydock.dev", Version: "v1alpha1", Resource: "scalers"}).List(ctx,
		metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for Scalers: %w", err)
	}
	return len(scalers.Items) > 0, nil
}

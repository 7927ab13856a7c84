package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/install"
)

func newUninstall(t *tool) *cobra.Command {
	o := &installing{tool: t}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Release everything, then remove Drydock",
		Long: "Wake every sleeping set, release every held member and resume every owner, as kubectl drydock release -A does. When nothing is\n" +
			"left, remove Drydock's functions, policies, roles and namespace. StatefulSets, claims and volumes stay.\n\n" +
			"The command stops before the removal if an operation still runs. If Helm has installed Drydock, the command only releases, and\n" +
			"says how to uninstall the Helm release. Without --yes it only shows what it would do.",
		Example: "  kubectl drydock uninstall\n  kubectl drydock uninstall --yes",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.uninstall(c.Context()) },
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "release and remove")
	c.Flags().BoolVar(&o.ignoreHelm, "ignore-helm", false, "remove the objects even if they name a Helm release")
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
	helm, err := from.helmRelease(ctx)
	switch {
	case err != nil:
		return err
	case helm != nil && !o.ignoreHelm:
		return o.leaveToHelm(helm)
	}
	objects, err := o.installedObjects(ctx, from)
	if err != nil {
		return err
	}
	if !o.yes {
		fmt.Fprintf(o.Out, "%s of Drydock would be removed. Add --yes to do it.\n", counted(len(objects), "object"))
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
		fmt.Fprintln(o.Out, "The kind Scaler stays, because there are Scalers. To remove it with all of them: "+
			"kubectl delete crd scalers.drydock.dev")
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
	held, err := s.releasing().holdings(ctx)
	if err == nil && len(held) > 0 {
		err = (&releaser{tool: o.tool, all: true, yes: true}).run(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w. Drydock's functions are removed, but not its policies and roles. Install Drydock again with kubectl drydock "+
			"install, wait for the end of the operations, and run this command again", err)
	}
	return nil
}

// installedObjects returns the existing objects of the installation, in the order in which they were applied.
func (o *installing) installedObjects(ctx context.Context, from *target) ([]*unstructured.Unstructured, error) {
	// The images do not matter for the removal.
	options := install.Options{Mode: install.Standalone, Image: "none:none", StandaloneImage: "none:none"}
	knative, err := from.installed(ctx, install.Knative)
	if err != nil {
		return nil, err
	}
	if knative != nil {
		options.Mode = install.Knative
	}
	if options.Templates, err = from.mutatingVersion(); err != nil {
		return nil, err
	}
	objects, err := install.Render(options)
	if err != nil {
		return nil, err
	}
	exists := make([]bool, len(objects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(10)
	for i, object := range objects {
		group.Go(func() (err error) {
			exists[i], err = from.exists(ctx, object)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var existing []*unstructured.Unstructured
	for i, object := range objects {
		if exists[i] {
			existing = append(existing, object)
		}
	}
	return existing, nil
}

// exists reports whether the cluster has the object.
func (c *target) exists(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	client, err := c.kindOf(ctx, object)
	if err != nil {
		return false, err
	}
	_, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("looking for %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return err == nil, nil
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
	for tries := 0; ; tries++ {
		_, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err == nil && tries == 0 {
			fmt.Fprintf(c.errOut, "Waiting until %s %s is gone\n", strings.ToLower(object.GetKind()), object.GetName())
		}
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

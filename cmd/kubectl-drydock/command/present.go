package command

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/api"
)

// markers are the objects that show an installation.
var markers = map[install.Mode]struct {
	resource schema.GroupVersionResource
	name     string
}{
	install.Standalone: {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "drydock-standalone"},
	install.Knative:    {schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}, "detect-resize"},
}

// installed returns the marker of the installation in the mode, or nil if Drydock is not installed in it.
func (c *target) installed(ctx context.Context, mode install.Mode) (*unstructured.Unstructured, error) {
	marker := markers[mode]
	object, err := c.objects.Resource(marker.resource).Namespace(install.Namespace).Get(ctx, marker.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an installation (%s): %w", mode, err)
	}
	return object, nil
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
		if found != nil {
			return fmt.Errorf("an installation of Drydock with --mode %s exists, and both would work on the same sets. Remove it first: "+
				"kubectl drydock uninstall", other)
		}
	}
	return nil
}

// moverImage returns the image of the movers of the present installation, or "" if there is none. If an upgrade to the next image did not
// end, its Role has that image, and the one before.
func (c *target) moverImage(ctx context.Context, next string, allowTags bool) (string, error) {
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	object, err := c.objects.Resource(roles).Namespace(install.Namespace).Get(ctx, install.MoverRole, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Role %s/%s: %w", install.Namespace, install.MoverRole, err)
	}
	role := &rbacv1.Role{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
		return "", fmt.Errorf("reading Role %s/%s: %w", install.Namespace, install.MoverRole, err)
	}
	for _, rule := range role.Rules {
		for _, image := range rule.ResourceNames {
			if fault, _ := api.ImageFault(image, allowTags); image != next && fault == "" {
				return image, nil
			}
		}
	}
	return "", nil
}

// helmRelease is the Helm release that an object names as its owner. Helm believes this claim too.
type helmRelease struct{ name, namespace string }

// helmRelease returns the Helm release that has installed Drydock, or nil if there is none.
func (c *target) helmRelease(ctx context.Context) (*helmRelease, error) {
	for mode := range markers {
		marker, err := c.installed(ctx, mode)
		if err != nil {
			return nil, err
		}
		if release := releaseOf(marker); release != nil {
			return release, nil
		}
	}
	return nil, nil
}

// releaseOf returns the Helm release that the object names, or nil. The names become words of a command, so other names are no release.
func releaseOf(object *unstructured.Unstructured) *helmRelease {
	if object == nil || object.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
		return nil
	}
	release := &helmRelease{object.GetAnnotations()["meta.helm.sh/release-name"], object.GetAnnotations()["meta.helm.sh/release-namespace"]}
	if len(validation.IsDNS1123Subdomain(release.name)) > 0 || len(validation.IsDNS1123Label(release.namespace)) > 0 {
		return nil
	}
	return release
}

// leaveToHelm says how to remove the release. If the command deleted Helm's objects, the record of the release would stay, and the next
// helm install would fail. A GitOps controller might install the objects again.
func (o *installing) leaveToHelm(r *helmRelease) error {
	remove := fmt.Sprintf("helm uninstall %s -n %s%s", r.name, r.namespace, o.helmFlags())
	if !o.yes {
		fmt.Fprintf(o.Out, "Helm release %s in namespace %s has installed Drydock. Add --yes to release everything. Then remove Drydock "+
			"with: %s\n", r.name, r.namespace, remove)
		return nil
	}
	return fmt.Errorf("everything is released, but Drydock is not removed: Helm release %s in namespace %s has installed it. "+
		"Remove it with: %s. If Helm does not know the release, add --ignore-helm", r.name, r.namespace, remove)
}

// helmNames are Helm's names of the connection flags.
var helmNames = []struct{ kubectl, helm string }{{"kubeconfig", "kubeconfig"}, {"context", "kube-context"}, {"server", "kube-apiserver"},
	{"tls-server-name", "kube-tls-server-name"}, {"insecure-skip-tls-verify", "kube-insecure-skip-tls-verify"},
	{"certificate-authority", "kube-ca-file"}, {"as", "kube-as-user"}, {"as-group", "kube-as-group"}}

// unknownToHelm are the connection flags that Helm lacks, and that choose the cluster or the account.
var unknownToHelm = []string{"cluster", "user", "client-certificate", "client-key", "as-uid", "as-user-extra"}

// helmFlags returns the connection flags of the command line as Helm names them. If Helm lacks one of them, a placeholder makes the command
// fail as it is: without it, the command would uninstall from the default cluster, where nothing is released.
func (t *tool) helmFlags() string {
	var words strings.Builder
	for _, name := range unknownToHelm {
		if len(t.given(name)) > 0 {
			return " --kube-context=CONTEXT" // of the same cluster and account
		}
	}
	if len(t.given(secretFlag)) > 0 {
		words.WriteString(" --kube-token=TOKEN")
	}
	for _, name := range helmNames {
		for _, value := range t.given(name.kubectl) {
			words.WriteString(" --" + name.helm + "=" + shellWord(value))
		}
	}
	return words.String()
}

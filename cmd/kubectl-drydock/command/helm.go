package command

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

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

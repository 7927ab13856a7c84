// Package install renders the manifests of an installation from the files of config and deploy. It is pure.
package install

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"drydock.dev/config"
	"drydock.dev/deploy"
	"drydock.dev/shared/api"
)

// Mode says how the functions run.
type Mode string

// The modes of an installation.
const (
	// Standalone: all functions in one Deployment.
	Standalone Mode = "standalone"
	// Knative: each function as a Service of Knative that scales to zero.
	Knative Mode = "knative"
)

// Namespace is the namespace of Drydock's own objects.
const Namespace = "drydock"

// Options choose an installation.
type Options struct {
	Mode Mode
	// Image is the image of the movers and, on Knative, of the functions.
	Image string
	// StandaloneImage is the image of the process that runs all functions. Only Standalone needs it.
	StandaloneImage string
	// AllowTags accepts images without a digest.
	AllowTags bool
	// Templates is the API version of the MutatingAdmissionPolicy that turns edited manifests into requests: v1 or v1beta1. Empty leaves the
	// policy out.
	Templates string
	// PreviousImage is the image of the functions that run until the new ones are ready. Their movers stay allowed. It may be empty.
	PreviousImage string
}

// Check returns an error if an image is missing, or may change without notice.
func (o Options) Check() error {
	if err := o.checkImage("--image", o.Image); err != nil || o.Mode != Standalone {
		return err
	}
	return o.checkImage("--standalone-image", o.StandaloneImage)
}

func (o Options) checkImage(flag, image string) error {
	fault, tagsWouldDo := api.ImageFault(image, o.AllowTags)
	switch {
	case image == "":
		return fmt.Errorf("%s is missing. Write %s=REGISTRY/NAME@sha256:DIGEST", flag, flag)
	case tagsWouldDo:
		return fmt.Errorf("%s %s. Write REGISTRY/NAME@sha256:DIGEST, or add --allow-tags", flag, fault)
	case fault != "":
		return fmt.Errorf("%s %s. Write REGISTRY/NAME@sha256:DIGEST", flag, fault)
	}
	return nil
}

// Render returns the objects of the installation, in the order of their application.
func Render(o Options) ([]*unstructured.Unstructured, error) {
	objects, err := render(o.overlay())
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if err := o.nameMover(object); err != nil {
			return nil, err
		}
	}
	if o.Mode == Knative {
		objects = append(objects, o.moverRole())
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(Rank(a), Rank(b)) })
	return objects, nil
}

// render returns the objects of a kustomization that lies in a folder beside config and deploy.
func render(overlay map[string]any) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	for folder, from := range map[string]fs.FS{"config": config.Files, "deploy": deploy.Files} {
		if err := copyFiles(from, files, folder); err != nil {
			return nil, err
		}
	}
	content, err := yaml.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	if err := files.WriteFile("installation/kustomization.yaml", content); err != nil {
		return nil, err
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "installation")
	if err != nil {
		return nil, fmt.Errorf("rendering the manifests: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range rendered.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

func copyFiles(from fs.FS, to filesys.FileSystem, folder string) error {
	return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return to.WriteFile(path.Join(folder, name), content)
	})
}

// overlay returns the kustomization that names the parts and the images.
func (o Options) overlay() map[string]any {
	resources := []string{"../deploy/standalone"}
	images := []map[string]string{image("registry.invalid/drydock-standalone", o.StandaloneImage)}
	if o.Mode == Knative {
		resources = []string{"../config/overlays/cluster", "../deploy"}
		images = []map[string]string{image("drydock", o.Image)}
	}
	switch o.Templates {
	case "v1":
		resources = append(resources, "../config/apply")
	case "v1beta1":
		resources = append(resources, "../config/apply-v1beta1")
	}
	return map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources, "images": images}
}

// image returns an entry of images in a kustomization.
func image(name, reference string) map[string]string {
	if repository, digest, ok := strings.Cut(reference, "@"); ok {
		return map[string]string{"name": name, "newName": repository, "digest": digest}
	}
	colon := strings.LastIndex(reference, ":")
	return map[string]string{"name": name, "newName": reference[:max(colon, 0)], "newTag": reference[colon+1:]}
}

// nameMover sets the image of the movers in the objects that name it: the settings, the Role with the allowed images
// (config/policy/fence-jobs.yaml), and the functions that create pods.
func (o Options) nameMover(object *unstructured.Unstructured) error {
	switch {
	case object.GetKind() == "ConfigMap" && object.GetName() == "drydock-settings":
		settings := map[string]string{"DRYDOCK_IMAGE": o.Image, "DRYDOCK_ALLOW_TAGS": fmt.Sprint(o.AllowTags)}
		for key, value := range settings {
			if err := unstructured.SetNestedField(object.Object, value, "data", key); err != nil {
				return err
			}
		}
	case object.GetKind() == "Role" && object.GetName() == MoverRole:
		return unstructured.SetNestedSlice(object.Object, o.moverRules(), "rules")
	case object.GetKind() == "Service" && strings.HasPrefix(object.GetAPIVersion(), "serving.knative.dev/"):
		return o.nameMoverInFunction(object)
	}
	return nil
}

// MoverRole is the name of the Role with the allowed images of movers, the present one first.
const MoverRole = "drydock-mover-image"

// moverRole returns the Role with the allowed image of movers. deploy/standalone contains it. On Knative, deploy/apply writes it, so the
// files of config and deploy do not.
func (o Options) moverRole() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "Role",
		"metadata": map[string]any{
			"name":      MoverRole,
			"namespace": Namespace,
			"labels":    map[string]any{"app.kubernetes.io/name": "drydock"},
		},
		"rules": o.moverRules(),
	}}
}

func (o Options) moverRules() []any {
	images := []any{o.Image}
	if o.PreviousImage != "" && o.PreviousImage != o.Image {
		images = append(images, o.PreviousImage)
	}
	return []any{map[string]any{"apiGroups": []any{"drydock.dev"}, "resources": []any{"images"}, "verbs": []any{"use"},
		"resourceNames": images}}
}

func (o Options) nameMoverInFunction(service *unstructured.Unstructured) error {
	where := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(service.Object, where...)
	if err != nil {
		return err
	}
	for _, container := range containers {
		variables, _, err := unstructured.NestedSlice(container.(map[string]any), "env")
		if err != nil {
			return err
		}
		for _, variable := range variables {
			if v := variable.(map[string]any); v["name"] == "DRYDOCK_IMAGE" {
				v["value"] = o.Image
				container.(map[string]any)["env"] = variables
			}
		}
	}
	return unstructured.SetNestedSlice(service.Object, containers, where...)
}

// The ranks of objects. Those of a lower rank must exist before the others, and end after them. So no function runs without the policies
// that protect users from it.
const (
	RankScope     = iota // the namespace and the kinds
	RankRights           // accounts, roles, settings
	RankPolicies         // and everything else
	RankFunctions        // what runs, and what calls it
)

// Rank returns the rank of the object.
func Rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return RankScope
	case "ServiceAccount", "ConfigMap", "Role", "ClusterRole":
		return RankRights
	case "Deployment", "Service", "Trigger", "PingSource", "ApiServerSource":
		return RankFunctions
	}
	return RankPolicies
}

// Policies returns the ValidatingAdmissionPolicies of this version and their bindings.
var Policies = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	objects, err := render(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{"../config/policy"}})
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() != "ValidatingAdmissionPolicy" && o.GetKind() != "ValidatingAdmissionPolicyBinding"
	}), err
})

// filledIn are the values that the API server gives to the fields of policies and bindings that a manifest leaves out. Source: the
// defaults of admissionregistration.k8s.io/v1.
var filledIn = []any{"Fail", "Equivalent", "*", map[string]any{}}

// Differs reports whether the spec in the cluster has another meaning than that of the manifest.
func Differs(manifest, live any) bool {
	switch want := manifest.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return true
		}
		for key, value := range want {
			if Differs(value, have[key]) {
				return true
			}
		}
		for key, value := range have {
			if _, named := want[key]; !named && !slices.ContainsFunc(filledIn, func(v any) bool { return reflect.DeepEqual(v, value) }) {
				return true
			}
		}
		return false
	case []any:
		have, ok := live.([]any)
		return !ok || !slices.EqualFunc(want, have, func(a, b any) bool { return !Differs(a, b) })
	}
	return !reflect.DeepEqual(manifest, live)
}

package config

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestNamespaceOverlayForTwoNamespaces follows the head of config/overlays/namespace/kustomization.yaml: "For two namespaces, list both in
// DRYDOCK_NAMESPACES, copy bindings.yaml, and select both in the source."
func TestNamespaceOverlayForTwoNamespaces(t *testing.T) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(Files, name)
		if err != nil {
			return err
		}
		if name == "overlays/namespace/kustomization.yaml" {
			text := strings.ReplaceAll(string(content), "DRYDOCK_NAMESPACES: default", "DRYDOCK_NAMESPACES: default,shop")
			content = []byte(strings.ReplaceAll(text, "  - bindings.yaml\n", "  - bindings.yaml\n  - bindings-shop.yaml\n"))
		}
		if name == "overlays/namespace/bindings.yaml" {
			copied := strings.ReplaceAll(string(content), "namespace: NAMESPACE", "namespace: shop")
			if err := files.WriteFile("config/overlays/namespace/bindings-shop.yaml", []byte(copied)); err != nil {
				return err
			}
		}
		return files.WriteFile(path.Join("config", name), content)
	})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "config/overlays/namespace")
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range rendered.Resources() {
		if namespace := resource.GetNamespace(); strings.Contains(namespace, ",") {
			t.Errorf("%s is in the namespace %q", resource.CurId(), namespace)
		}
	}
}

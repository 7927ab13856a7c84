package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// manifestDiff returns the change that the user has to make in the manifest of the set, as a unified diff of the volumeClaimTemplates. It
// is empty if the templates of the set agree with the request.
func manifestDiff(set *appsv1.StatefulSet, request api.Request) (string, error) {
	var changed []api.TemplateTarget
	for _, template := range slices.Sorted(maps.Keys(request.Targets)) {
		if target := request.Targets[template]; statefulset.TemplateNeedsChange(set, template, target) {
			changed = append(changed, statefulset.TemplateFor(set, template, target))
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return "", fmt.Errorf("reading the templates of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	before := &unstructured.Unstructured{Object: content}
	old, err := templatesText(before)
	if err != nil {
		return "", err
	}
	wanted, err := templatesText(resources.MakeSet(before, changed, &api.Resize{}))
	if err != nil {
		return "", err
	}
	return strings.Map(printableLines, udiff.Unified("the present manifest", "the new manifest", old, wanted)), nil
}

// printableLines returns the character, or a space if the character moves other text.
func printableLines(r rune) rune {
	if r == '\n' {
		return r
	}
	return printable(r)
}

// templatesText returns the volumeClaimTemplates of the set as YAML, without the fields that only the API server writes.
func templatesText(set *unstructured.Unstructured) (string, error) {
	all, _, err := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		return "", err
	}
	for _, item := range all {
		if template, ok := item.(map[string]any); ok {
			delete(template, "status")
			unstructured.RemoveNestedField(template, "metadata", "creationTimestamp")
		}
	}
	content, err := json.Marshal(map[string]any{"volumeClaimTemplates": all})
	if err != nil {
		return "", err
	}
	manifest, err := yaml.JSONToYAML(text.EscapeJSON(content))
	return string(manifest), err
}

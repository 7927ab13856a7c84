package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// manifestDiff returns the change that the user has to make in the manifest of the set, as a unified diff of the fields that a request can
// change. It is empty if the set agrees with the request, and if the set has no manifest, because a controller makes it from its resource.
func manifestDiff(set *appsv1.StatefulSet, request api.Request) (string, error) {
	if metav1.GetControllerOf(set) != nil {
		return "", nil
	}
	var changed []api.TemplateTarget
	for _, template := range slices.Sorted(maps.Keys(request.Targets)) {
		if target := request.Targets[template]; statefulset.TemplateNeedsChange(set, template, target) {
			changed = append(changed, statefulset.TemplateFor(set, template, target))
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return "", fmt.Errorf("reading the fields of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	before := &unstructured.Unstructured{Object: content}
	old, err := fieldsText(before)
	if err != nil {
		return "", err
	}
	replacement := resources.SetFields(resources.MakeSet(before, changed, &api.Resize{}), statefulset.Unmet(set, request.Fields))
	wanted, err := fieldsText(replacement)
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

// fieldsText returns the fields of the set that a request can change as YAML, without the fields that only the API server writes.
func fieldsText(set *unstructured.Unstructured) (string, error) {
	all, found, err := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		return "", err
	}
	for _, item := range all {
		if template, ok := item.(map[string]any); ok {
			delete(template, "status")
			unstructured.RemoveNestedField(template, "metadata", "creationTimestamp")
		}
	}
	fields := map[string]any{}
	if found {
		fields["volumeClaimTemplates"] = all
	}
	for _, name := range []api.FieldName{api.FieldServiceName, api.FieldPodManagementPolicy} {
		value, _, err := unstructured.NestedString(set.Object, "spec", string(name))
		if err != nil {
			return "", err
		}
		if value != "" {
			fields[string(name)] = value
		}
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	manifest, err := yaml.JSONToYAML(text.EscapeJSON(content))
	return string(manifest), err
}

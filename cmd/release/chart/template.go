package chart

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The marks stand for values while the objects are rendered. They have the form of these values.
const (
	imageMark      = "image.mark@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	standaloneMark = "standalone.mark@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	replicasMark   = "replicas.mark"
	versionMark    = "version.mark"
)

// settingsConfig is the ConfigMap with the settings of all functions.
const settingsConfig = "drydock-settings"

// values replaces the marks by values of the chart.
var values = strings.NewReplacer(
	imageMark, "{{ .Values.image | quote }}",
	standaloneMark, "{{ .Values.standaloneImage | quote }}",
	replicasMark, "{{ .Values.replicas }}",
	versionMark, "{{ .Values.editedManifests }}",
)

// braces quotes the text that begins an action of a template.
var braces = strings.NewReplacer("{{", `{{ "{{" }}`)

// part is a template: objects that are installed under one condition.
type part struct {
	file      string
	condition string // empty: always
	objects   []*unstructured.Unstructured
}

// template returns the text of the template.
func (p part) template() (string, error) {
	var text strings.Builder
	text.WriteString("{{- /* Generated from config/ and deploy/, as kubectl drydock install applies it. */ -}}\n")
	if p.condition != "" {
		fmt.Fprintf(&text, "{{- if %s }}\n", p.condition)
	}
	for _, object := range p.objects {
		one, err := templateOf(object.DeepCopy())
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		text.WriteString(one)
	}
	if p.condition != "" {
		text.WriteString("{{- end }}\n")
	}
	return text.String(), nil
}

// templateOf returns the template of one object, and changes the object.
func templateOf(object *unstructured.Unstructured) (string, error) {
	switch object.GetKind() {
	case "Namespace":
		// Without this annotation, an upgrade with createNamespace=false would delete the namespace with everything in it.
		annotate(object, "helm.sh/resource-policy", "keep")
		text, err := document(object)
		return "{{- if .Values.createNamespace }}\n" + text + "{{- end }}\n", err
	case "CustomResourceDefinition":
		// helm uninstall would delete every Scaler with its kind.
		annotate(object, "helm.sh/resource-policy", "keep")
	case "ConfigMap":
		// The other ConfigMap is the list of turns, which pause-owner writes.
		if object.GetName() == settingsConfig {
			return settings(object)
		}
	case "Deployment":
		if err := unstructured.SetNestedField(object.Object, replicasMark, "spec", "replicas"); err != nil {
			return "", err
		}
	case "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		object.SetAPIVersion(object.GroupVersionKind().Group + "/" + versionMark)
	}
	return document(object)
}

func annotate(object *unstructured.Unstructured, key, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// document returns the object as a document with the values of the chart.
func document(object *unstructured.Unstructured) (string, error) {
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}
	return "---\n" + values.Replace(braces.Replace(string(text))), nil
}

// settings returns the template of the ConfigMap: the settings of the installation, then those of the user, then the image.
func settings(object *unstructured.Unstructured) (string, error) {
	defaults, _, err := unstructured.NestedStringMap(object.Object, "data")
	if err != nil {
		return "", err
	}
	unstructured.RemoveNestedField(object.Object, "data")
	text, err := document(object)
	if err != nil {
		return "", err
	}
	var pairs strings.Builder
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if name != "DRYDOCK_IMAGE" {
			fmt.Fprintf(&pairs, " %q %q", name, defaults[name])
		}
	}
	return text + "data:\n" +
		"  {{- $defaults := dict" + pairs.String() + " }}\n" +
		"  {{- range $name, $value := mergeOverwrite $defaults .Values.settings (dict \"DRYDOCK_IMAGE\" .Values.image) }}\n" +
		"  {{ $name }}: {{ $value | quote }}\n" +
		"  {{- end }}\n", nil
}

func isEqual(a, b *unstructured.Unstructured) bool { return reflect.DeepEqual(a.Object, b.Object) }

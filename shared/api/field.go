package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FieldName names an immutable field of a StatefulSet other than the sizes of its volumes. To change it, Drydock creates the set again
// around its running pods.
type FieldName string

const (
	FieldServiceName         FieldName = "serviceName"
	FieldPodManagementPolicy FieldName = "podManagementPolicy"
	// FieldLabels and FieldAnnotations are the metadata of a volumeClaimTemplate. Claims that are created later get them.
	FieldLabels      FieldName = "labels"
	FieldAnnotations FieldName = "annotations"
	// FieldTemplate is a whole volumeClaimTemplate that is added or removed.
	FieldTemplate FieldName = "template"
)

// Field is a change of such a field.
type Field struct {
	Name FieldName `json:"name"`
	// Template is the changed volumeClaimTemplate. It is empty for fields of the set itself.
	Template string `json:"template,omitempty"`
	// Key and Value are a label or an annotation. Value is also the new value of a field of the set.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Removed is true if the label, annotation or template is removed.
	Removed bool `json:"removed,omitempty"`
	// HookRequests has the values of an added template.
	Ask *TemplateTarget `json:"ask,omitempty"`
}

// path returns the field in the syntax of a request, without its value.
func (f Field) path() string {
	switch f.Name {
	case FieldLabels, FieldAnnotations:
		return f.Template + "/" + string(f.Name) + "/" + f.Key
	case FieldTemplate:
		return f.Template
	}
	return string(f.Name)
}

// String returns the field in the syntax of a request.
func (f Field) String() string {
	switch {
	case f.Name == FieldTemplate && f.Removed:
		return "-" + f.Template
	case f.Name == FieldTemplate && f.Ask != nil:
		return "+" + f.Ask.String()
	case f.Removed:
		return f.path() + "-"
	}
	return f.path() + "=" + f.Value
}

// Adds reports whether the field adds a volumeClaimTemplate.
func (f Field) Adds() bool { return f.Name == FieldTemplate && !f.Removed }

// Removes reports whether the field removes a volumeClaimTemplate.
func (f Field) Removes() bool { return f.Name == FieldTemplate && f.Removed }

// complete reports whether a stored field has the values that its name needs.
func (f Field) complete() bool {
	switch f.Name {
	case FieldServiceName, FieldPodManagementPolicy:
		return !f.Removed
	case FieldLabels, FieldAnnotations:
		return f.Template != "" && f.Key != ""
	case FieldTemplate:
		return f.Template != "" && (f.Removed || f.Ask != nil && f.Ask.Name == f.Template)
	}
	return false
}

// Words returns the fields in the syntax of a request.
func Words(fields []Field) []string {
	var words []string
	for _, f := range fields {
		words = append(words, f.String())
	}
	return words
}

// MaxFields is the largest number of fields in a request. The policy of config/apply sorts as many.
const MaxFields = 16

const fieldFormat = `for fields other than sizes write "serviceName=NAME", "podManagementPolicy=Parallel", "TEMPLATE/labels/KEY=VALUE", ` +
	`"TEMPLATE/labels/KEY-", the same with annotations, "+TEMPLATE=SIZE@STORAGECLASS:ACCESSMODE" or "-TEMPLATE"`

// annotationValue matches the annotation values that a request can contain. They need no escapes in the request. They need none in the
// JSON of the record either, where the policies of config/apply search for the request.
var annotationValue = regexp.MustCompile(`^([A-Za-z0-9._:/@=+*~()-]([A-Za-z0-9._:/@=+*~() -]*[A-Za-z0-9._:/@=+*~()-])?)?$`)

const maxAnnotationValue = 253

var podManagementPolicies = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}

// isField reports whether a part of a request is a field. Otherwise it is the size of a template, whose name is a lower-case DNS label.
func isField(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	return strings.ContainsAny(name, "/+") || strings.HasPrefix(name, "-") ||
		slices.Contains([]FieldName{FieldServiceName, FieldPodManagementPolicy}, FieldName(name))
}

func parseField(part string) (Field, error) {
	switch {
	case strings.HasPrefix(part, "+"):
		return parseAdded(part[1:])
	case strings.HasPrefix(part, "-"):
		return Field{Name: FieldTemplate, Template: part[1:], Removed: true}, checkTemplate(part[1:])
	case strings.Contains(part, "/"):
		if path := strings.SplitN(part, "/", 3); len(path) == 3 {
			return parseMeta(path[0], FieldName(path[1]), path[2])
		}
		return Field{}, fmt.Errorf("%q is not a label or an annotation", part)
	}
	name, value, valued := strings.Cut(part, "=")
	field := Field{Name: FieldName(name), Value: value}
	switch {
	case !valued:
		return Field{}, fmt.Errorf("%q has no value", part)
	case field.Name == FieldServiceName && value != "":
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			return Field{}, fmt.Errorf("service %q: %s", value, problems[0])
		}
	case field.Name == FieldPodManagementPolicy && !slices.Contains(podManagementPolicies, appsv1.PodManagementPolicyType(value)):
		return Field{}, fmt.Errorf("%q is not a podManagementPolicy; write OrderedReady or Parallel", value)
	}
	return field, nil
}

// parseAdded reads NAME=SIZE@STORAGECLASS%VOLUMEATTRIBUTESCLASS:ACCESSMODE. An added template needs an access mode.
func parseAdded(part string) (Field, error) {
	template, target, err := parseTarget(part)
	switch {
	case err != nil:
		return Field{}, err
	case !target.Exact || len(target.Modes) == 0:
		return Field{}, fmt.Errorf("the added template %q needs an access mode and a size without %s", template, AtLeast)
	}
	ask := TemplateTarget{Name: template, Size: target.Size, Class: target.Class, Attributes: target.Attributes, Modes: target.Modes}
	return Field{Name: FieldTemplate, Template: template, Ask: &ask}, nil
}

// parseMeta reads KEY=VALUE or KEY- of a label or an annotation.
func parseMeta(template string, name FieldName, rest string) (Field, error) {
	key, value, valued := strings.Cut(rest, "=")
	key, removed := strings.CutSuffix(key, "-")
	field := Field{Name: name, Template: template, Key: key, Value: value, Removed: removed}
	if err := checkTemplate(template); err != nil {
		return Field{}, err
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return Field{}, fmt.Errorf("key %q: %s", key, problems[0])
	}
	switch {
	case valued == removed:
		return Field{}, fmt.Errorf("%q has no value; write %s=VALUE, or %s- to remove it", rest, key, key)
	case name == FieldLabels && len(validation.IsValidLabelValue(value)) > 0:
		return Field{}, fmt.Errorf("%q is not a valid label value", value)
	case name == FieldAnnotations && (len(value) > maxAnnotationValue || !annotationValue.MatchString(value)):
		return Field{}, fmt.Errorf("a request cannot contain the annotation value %q; use up to %d letters, digits, blanks and ._:/@=+*~()-",
			value, maxAnnotationValue)
	case name != FieldLabels && name != FieldAnnotations:
		return Field{}, fmt.Errorf("a template has labels and annotations, but no field %q", name)
	}
	return field, nil
}

func checkTemplate(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("template %q: %s", name, problems[0])
	}
	return nil
}

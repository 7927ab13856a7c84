package api

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

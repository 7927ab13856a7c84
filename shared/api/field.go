package api

// FieldName names a part of a StatefulSet that no update may change, and that is no size of a volume. The set gets another value when it is
// created again around its running pods.
type FieldName string

const (
	FieldServiceName         FieldName = "serviceName"
	FieldPodManagementPolicy FieldName = "podManagementPolicy"
	// FieldLabels and FieldAnnotations are those of a volumeClaimTemplate. Only claims that are created later get them.
	FieldLabels      FieldName = "labels"
	FieldAnnotations FieldName = "annotations"
	// FieldTemplate is a whole volumeClaimTemplate, which is added or removed.
	FieldTemplate FieldName = "template"
)

// Field is the value that one of these parts gets.
type Field struct {
	Name FieldName `json:"name"`
	// Template is the volumeClaimTemplate that the field is about; empty for fields of the set itself.
	Template string `json:"template,omitempty"`
	// Key and Value are those of a label or an annotation. Value is also the new value of a field of the set.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Removed: the label, annotation or template goes.
	Removed bool `json:"removed,omitempty"`
	// Ask is what the claims of an added template ask for.
	Ask *TemplateTarget `json:"ask,omitempty"`
}

// path names the part that the field is about, in the syntax of a request.
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

// complete reports whether a field of a stored document has what its name needs.
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

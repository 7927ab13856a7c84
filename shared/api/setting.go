package api

// SettingField is a part of a StatefulSet that no update may change, and that is no size of a volume. The set gets another one when it is
// created again around its running pods.
type SettingField string

const (
	FieldServiceName         SettingField = "serviceName"
	FieldPodManagementPolicy SettingField = "podManagementPolicy"
	// FieldLabels and FieldAnnotations are those of a volumeClaimTemplate. Only claims that are created later get them.
	FieldLabels      SettingField = "labels"
	FieldAnnotations SettingField = "annotations"
	// FieldTemplate is a whole volumeClaimTemplate, which is added or removed.
	FieldTemplate SettingField = "template"
)

// Setting is what one of these parts is to become.
type Setting struct {
	Field SettingField `json:"field"`
	// Template is the volumeClaimTemplate that the setting is about; empty for fields of the set itself.
	Template string `json:"template,omitempty"`
	// Key and Value are those of a label or an annotation. Value is also the new value of a field of the set.
	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Removed: the label, annotation or template goes.
	Removed bool `json:"removed,omitempty"`
	// Ask is what the claims of an added template ask for.
	Ask *TemplateTarget `json:"ask,omitempty"`
}

// path names the part that the setting is about, in the syntax of a request.
func (s Setting) path() string {
	switch s.Field {
	case FieldLabels, FieldAnnotations:
		return s.Template + "/" + string(s.Field) + "/" + s.Key
	case FieldTemplate:
		return s.Template
	}
	return string(s.Field)
}

// String returns the setting in the syntax of a request.
func (s Setting) String() string {
	switch {
	case s.Field == FieldTemplate && s.Removed:
		return "-" + s.Template
	case s.Field == FieldTemplate && s.Ask != nil:
		return "+" + s.Ask.String()
	case s.Removed:
		return s.path() + "-"
	}
	return s.path() + "=" + s.Value
}

// Adds reports whether the setting adds a volumeClaimTemplate.
func (s Setting) Adds() bool { return s.Field == FieldTemplate && !s.Removed }

// Removes reports whether the setting removes a volumeClaimTemplate.
func (s Setting) Removes() bool { return s.Field == FieldTemplate && s.Removed }

// complete reports whether a setting of a stored document has what its field needs.
func (s Setting) complete() bool {
	switch s.Field {
	case FieldServiceName, FieldPodManagementPolicy:
		return !s.Removed
	case FieldLabels, FieldAnnotations:
		return s.Template != "" && s.Key != ""
	case FieldTemplate:
		return s.Template != "" && (s.Removed || s.Ask != nil && s.Ask.Name == s.Template)
	}
	return false
}

// Words returns the settings in the syntax of a request.
func Words(settings []Setting) []string {
	var words []string
	for _, s := range settings {
		words = append(words, s.String())
	}
	return words
}

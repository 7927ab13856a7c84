package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// AtLeast follows a size in the resize annotation and keeps larger claims and templates from shrinking. Edited manifests request so.
const AtLeast = "+"

// Target has the requested values of a claim.
type Target struct {
	Size resource.Quantity
	// Class is a StorageClass. Empty keeps the claim's class.
	Class string
	// Modes are access modes. None keeps the claim's modes.
	Modes []corev1.PersistentVolumeAccessMode
	// Attributes is a VolumeAttributesClass. Empty means none, nil keeps the claim's class.
	Attributes *string
	// Exact is true if a larger claim shrinks. Otherwise the claim and its template may be larger, as when claims follow a template.
	Exact bool
}

// TemplateTarget has the requested values of a volumeClaimTemplate.
type TemplateTarget struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
	// Class is a StorageClass. Empty keeps the template's class.
	Class string `json:"class,omitempty"`
	// Modes are access modes. None keeps the template's modes.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is a VolumeAttributesClass. Empty means none, nil keeps the template's class.
	Attributes *string `json:"attributes,omitempty"`
}

// String returns the template in the syntax of a request.
func (t *TemplateTarget) String() string {
	text := t.Name + "=" + t.Size.String()
	if t.Class != "" {
		text += "@" + t.Class
	}
	if t.Attributes != nil && *t.Attributes != "" {
		text += "%" + *t.Attributes
	}
	for i, mode := range t.Modes {
		text += string(":+"[min(i, 1)]) + ShortMode(mode)
	}
	return text
}

// Target returns the requested values for claims of the template.
func (t *TemplateTarget) Target() Target {
	return Target{Size: t.Size, Class: t.Class, Modes: t.Modes, Attributes: t.Attributes}
}

package api

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/bounded"
)

// AutoRequest is the resize annotation's value that makes claims follow the volumeClaimTemplates.
const AutoRequest = "auto"

// RequestOf returns the request of the set, and whether there is one: its resize annotation or, with the annotation templates=owner, the
// sizes of its templates. An operator that created the set again took these sizes from its custom resource.
//
// No operator can change the templates of this set any more. So they are a request only once: until an operation on this set has succeeded,
// or the latest operation is for another request. Then the claims have the sizes that a user, a rollback or a growth by usage gave them
// last. The set that the operator creates next has no record of its own, so its templates are a request again.
func RequestOf(set *appsv1.StatefulSet) (text string, requested bool) {
	if text, requested = set.Annotations[ResizeAnnotation]; requested {
		return text, true
	}
	if text = templateSizes(set); !FollowsOwner(set) || text == "" {
		return "", false
	}
	record, err := LoadResize(set)
	if err != nil || record != nil && (record.Request != text || record.Phase == Succeeded) {
		return "", false
	}
	return text, true
}

// FollowsOwner reports whether the claims of the set follow the sizes in the custom resource that controls it.
func FollowsOwner(set *appsv1.StatefulSet) bool {
	return set.Annotations[TemplatesAnnotation] == TemplatesOwner && metav1.GetControllerOf(set) != nil
}

// templateSizes returns the sizes of the set's templates as a request; "" if there are none.
func templateSizes(set *appsv1.StatefulSet) string {
	var sizes []string
	for _, t := range set.Spec.VolumeClaimTemplates {
		if size := t.Spec.Resources.Requests.Storage(); !size.IsZero() {
			sizes = append(sizes, t.Name+"="+size.String())
		}
	}
	return strings.Join(sizes, ",")
}

// Request is a parsed request.
type Request struct {
	// Auto is true if the StatefulSet's own templates are the request.
	Auto bool
	// Targets has the requested values by template name, if not Auto.
	Targets map[string]Target
	// Fields are the changes of other immutable fields, in the order of the text.
	Fields []Field
}

// longestRequest is the limit for a request, in bytes. 16 templates with classes and access modes, and 16 fields, need less.
const longestRequest = 24 << 10

// CheckRequest returns an error if the text is too long for a request. The record of its operation repeats the text.
func CheckRequest(text string) error {
	if len(text) > longestRequest {
		return fmt.Errorf("the annotation %s has %d bytes, at most %d are read; name fewer templates",
			ResizeAnnotation, len(text), longestRequest)
	}
	return nil
}

// ParseRequest reads the value of the resize annotation:
//
//	auto                           claims follow the volumeClaimTemplates
//	data=20Gi                      one template
//	data=20Gi+                     at least 20Gi; larger claims do not shrink
//	data=20Gi@fast-ssd,logs=5Gi    several templates; @ names a StorageClass
//	data=20Gi%gold                 % names a VolumeAttributesClass
//	data=20Gi:RWX                  : names access modes, RWO, ROX, RWX or RWOP, with + between them
//	serviceName=db                 another immutable field, see parseField
//
// After the size, @, % and : stand in this order.
func ParseRequest(text string) (Request, error) {
	if err := CheckRequest(text); err != nil {
		return Request{}, err
	}
	if strings.TrimSpace(text) == AutoRequest {
		return Request{Auto: true}, nil
	}
	request := Request{Targets: map[string]Target{}}
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if isField(part) {
			if err := request.addField(part); err != nil {
				return Request{}, fmt.Errorf("%s=%q: %w", ResizeAnnotation, text, err)
			}
			continue
		}
		template, target, err := parseTarget(part)
		if err != nil {
			return Request{}, fmt.Errorf("%s=%q: %w; %s", ResizeAnnotation, text, err, requestFormat)
		}
		if _, twice := request.Targets[template]; twice {
			return Request{}, fmt.Errorf("%s=%q: template %q is named twice; name each once", ResizeAnnotation, text, template)
		}
		request.Targets[template] = target
	}
	if err := request.checkConflicts(); err != nil {
		return Request{}, fmt.Errorf("%s=%q: %w", ResizeAnnotation, text, err)
	}
	return request, nil
}

// addField parses a part of the request and adds it. A field may be named once.
func (r *Request) addField(part string) error {
	field, err := parseField(part)
	if err != nil {
		return fmt.Errorf("%w; %s", err, fieldFormat)
	}
	for _, other := range r.Fields {
		if other.path() == field.path() {
			return fmt.Errorf("%q is named twice; name it once", field.path())
		}
	}
	if r.Fields = append(r.Fields, field); len(r.Fields) > MaxFields {
		return fmt.Errorf("there are more than %d changes other than sizes; split the request", MaxFields)
	}
	return nil
}

// checkConflicts returns an error if the request changes a template that it also adds or removes.
func (r *Request) checkConflicts() error {
	for _, f := range r.Fields {
		if f.Name != FieldTemplate {
			continue
		}
		_, sized := r.Targets[f.Template]
		if sized || slices.ContainsFunc(r.Fields, func(o Field) bool { return o.Template == f.Template && o.Name != FieldTemplate }) {
			return fmt.Errorf("template %q is both changed and added or removed; request only one of them", f.Template)
		}
	}
	return nil
}

const requestFormat = `write "auto", or TEMPLATE=SIZE, several separated by commas. @STORAGECLASS, %VOLUMEATTRIBUTESCLASS and ` +
	`:ACCESSMODES may follow the size in this order, as "data=20Gi%gold,logs=5Gi@fast:RWO+ROX"; SIZE+ means at least that size`

func parseTarget(part string) (string, Target, error) {
	template, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", Target{}, fmt.Errorf("%q has no size", part)
	}
	if problems := validation.IsDNS1123Label(template); len(problems) > 0 {
		return "", Target{}, fmt.Errorf("template %q: %s", template, problems[0])
	}
	rest, short, moded := strings.Cut(rest, ":")
	rest, attributes, attributed := strings.Cut(rest, "%")
	size, class, named := strings.Cut(rest, "@")
	size, atLeast := strings.CutSuffix(size, AtLeast)
	quantity, err := bounded.Quantity(size)
	if err != nil {
		return "", Target{}, fmt.Errorf("size %w", err)
	}
	if quantity.Sign() <= 0 {
		return "", Target{}, fmt.Errorf("size %q is not positive", size)
	}
	if named {
		if problems := validation.IsDNS1123Subdomain(class); len(problems) > 0 {
			return "", Target{}, fmt.Errorf("storage class %q: %s", class, problems[0])
		}
	}
	target := Target{Size: quantity, Class: class, Exact: !atLeast}
	if attributed {
		if problems := validation.IsDNS1123Subdomain(attributes); len(problems) > 0 {
			return "", Target{}, fmt.Errorf("volume attributes class %q: %s", attributes, problems[0])
		}
		target.Attributes = &attributes
	}
	if moded {
		if target.Modes, err = parseModes(short); err != nil {
			return "", Target{}, err
		}
	}
	return template, target, nil
}

func parseModes(text string) ([]corev1.PersistentVolumeAccessMode, error) {
	var modes []corev1.PersistentVolumeAccessMode
	for _, short := range strings.Split(text, "+") {
		mode, known := accessModes[short]
		if !known {
			return nil, fmt.Errorf("%q is not an access mode; write RWO, ROX, RWX or RWOP", short)
		}
		modes = append(modes, mode)
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) { // kubernetes pkg/apis/core/validation
		return nil, fmt.Errorf("access mode RWOP cannot be combined with others")
	}
	return modes, nil
}

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

// accessModes maps the short names that kubectl prints.
var accessModes = map[string]corev1.PersistentVolumeAccessMode{
	"RWO": corev1.ReadWriteOnce, "ROX": corev1.ReadOnlyMany, "RWX": corev1.ReadWriteMany, "RWOP": corev1.ReadWriteOncePod,
}

// ShortMode returns the short name of the access mode.
func ShortMode(mode corev1.PersistentVolumeAccessMode) string {
	for short, known := range accessModes {
		if known == mode {
			return short
		}
	}
	return string(mode)
}

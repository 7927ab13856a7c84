package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
)

// Patch collects changes of one object. It leaves out changes that the object already has, so that no write without an effect is sent.
type Patch struct {
	action Action
	object metav1.Object
	made   map[string]bool // parent objects that this patch creates
}

// PatchOf starts a patch of this version of the object. The patch replaces metadata.resourceVersion with the same value. The API server
// answers 409 if the object has changed since, or if another object has the name. A resourceVersion is unique in the cluster, so it stands
// for the UID, too.
func PatchOf(resource Resource, object metav1.Object) *Patch {
	return &Patch{
		action: Action{Verb: VerbPatch, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName()},
		object: object,
		made:   map[string]bool{},
	}
}

// Annotate sets an annotation. The description of the patch names the key, but not the value.
func (p *Patch) Annotate(key, value string) *Patch {
	return p.setIn("/metadata/annotations", p.object.GetAnnotations(), key, value, "+"+short(key))
}

// Unannotate removes an annotation.
func (p *Patch) Unannotate(key string) *Patch {
	return p.removeFrom("/metadata/annotations", p.object.GetAnnotations(), key, "-"+short(key))
}

const labels = "/metadata/labels"

// Label sets a label.
func (p *Patch) Label(key, value string) *Patch {
	return p.setIn(labels, p.object.GetLabels(), key, value, "+label "+short(key))
}

// Unlabel removes a label.
func (p *Patch) Unlabel(key string) *Patch {
	return p.removeFrom(labels, p.object.GetLabels(), key, "-label "+short(key))
}

// Link connects the object with an operation.
func (p *Patch) Link(link api.Link) *Patch {
	if p.action.Resource == Volumes {
		p.setIn(labels, p.object.GetLabels(), api.NamespaceLabel, link.Namespace)
	}
	return p.Label(api.OperationLabel, link.Operation).Annotate(api.OperationAnnotation, link.Encode())
}

// Unlink removes the connection with an operation.
func (p *Patch) Unlink() *Patch {
	if p.action.Resource == Volumes {
		p.removeFrom(labels, p.object.GetLabels(), api.NamespaceLabel)
	}
	return p.Unlabel(api.OperationLabel).Unannotate(api.OperationAnnotation)
}

// Set writes a field if its present value differs from the wanted one. Words describe the change.
func Set[T comparable](p *Patch, path string, present, wanted T, words string) *Patch {
	if present == wanted {
		return p
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: path, Value: wanted})
	p.action.Words = append(p.action.Words, words)
	return p
}

// Child returns the value of a map under the name, or of a list at the index in the name, as in a JSON pointer. It returns nil without one.
func Child(node any, name string) any {
	switch node := node.(type) {
	case map[string]any:
		return node[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node) {
			return node[i]
		}
	}
	return nil
}

// SetField writes the field at the path of an object without a Go type, and creates missing parents. The path names a list's item by its
// index. The index is valid, because the patch applies only to this version of the object.
func (p *Patch) SetField(content map[string]any, path []string, value any) *Patch {
	pointer, node := "", any(content)
	for _, name := range path[:len(path)-1] {
		pointer += "/" + escape(name)
		node = Child(node, name)
		if node == nil && !p.made[pointer] {
			p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: pointer, Value: map[string]any{}})
			p.made[pointer] = true
		}
	}
	return p.Replace(pointer+"/"+escape(path[len(path)-1]), value, fmt.Sprintf("%s = %v", strings.Join(path, "."), value))
}

// RemoveField removes the field at the path. The field must exist.
func (p *Patch) RemoveField(path []string) *Patch {
	pointer := ""
	for _, name := range path {
		pointer += "/" + escape(name)
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "remove", Path: pointer})
	p.action.Words = append(p.action.Words, "-"+strings.Join(path, "."))
	return p
}

// Replace writes a field, even if it has the value already.
func (p *Patch) Replace(path string, value any, words string) *Patch {
	p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: path, Value: value})
	p.action.Words = append(p.action.Words, words)
	return p
}

// AddFinalizer adds a finalizer if the object lacks it.
func (p *Patch) AddFinalizer(name string) *Patch {
	if slices.Contains(p.object.GetFinalizers(), name) {
		return p
	}
	value := append(slices.Clone(p.object.GetFinalizers()), name)
	return p.Replace("/metadata/finalizers", value, "+finalizer "+short(name))
}

// RemoveFinalizer removes a finalizer from any place in the list.
func (p *Patch) RemoveFinalizer(name string) *Patch { return p.RemoveFinalizers(name) }

// RemoveFinalizers removes the finalizers that the object has, in one write.
func (p *Patch) RemoveFinalizers(names ...string) *Patch {
	removed := 0
	for i, present := range p.object.GetFinalizers() {
		if !slices.Contains(names, present) {
			continue
		}
		path := fmt.Sprintf("/metadata/finalizers/%d", i-removed) // each removal moves the others up
		p.action.Ops = append(p.action.Ops, Op{Op: "test", Path: path, Value: present}, Op{Op: "remove", Path: path})
		p.action.Words = append(p.action.Words, "-finalizer "+short(present))
		removed++
	}
	return p
}

// Measure adds figures that the metrics get once the patch has succeeded.
func (p *Patch) Measure(figures ...Measurement) *Patch {
	p.action.Measurements = append(p.action.Measurements, figures...)
	return p
}

// Empty reports whether the patch changes nothing.
func (p *Patch) Empty() bool { return len(p.action.Ops) == 0 }

// Actions returns the patch with its precondition, or nothing if the patch is empty.
func (p *Patch) Actions() []Action {
	if p.Empty() {
		return nil
	}
	action := p.action
	action.Ops = append([]Op{guard(p.object.GetResourceVersion())}, action.Ops...)
	return []Action{action}
}

// SetData returns the write that makes the data of a ConfigMap equal to wanted, or nothing. Its precondition is that each changed key still
// has the value that was read. So processes that change different keys do not prevent each other's writes, unlike with PatchOf. If a
// value differs, the API server answers 422, and shared/apply makes a conflict of it.
func SetData(config *corev1.ConfigMap, wanted map[string]string) []Action {
	action := Action{Verb: VerbPatch, Resource: ConfigMaps, Namespace: config.Namespace, Name: config.Name,
		Ops: []Op{{Op: "test", Path: "/metadata/uid", Value: config.UID}}}
	if config.Data == nil && len(wanted) > 0 {
		action.Ops = append(action.Ops, Op{Op: "test", Path: "/data", Value: absent}, Op{Op: "add", Path: "/data", Value: map[string]string{}})
	}
	change := func(key string, op Op) {
		op.Path = "/data/" + escape(key)
		test := Op{Op: "test", Path: op.Path, Value: absent}
		if present, ok := config.Data[key]; ok {
			test.Value = present
		}
		action.Ops = append(action.Ops, test, op)
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if present, ok := config.Data[key]; !ok || present != wanted[key] {
			change(key, Op{Op: "add", Value: wanted[key]})
			action.Words = append(action.Words, "+"+key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(config.Data)) {
		if _, stays := wanted[key]; !stays {
			change(key, Op{Op: "remove"})
			action.Words = append(action.Words, "-"+key)
		}
	}
	if len(action.Words) == 0 {
		return nil
	}
	return []Action{action}
}

// absent is the value of a path that does not exist, in a test operation of the API server's library for JSON patches.
var absent = json.RawMessage("null")

const guardPath = "/metadata/resourceVersion"

// guard returns the first operation of every patch. It succeeds only on this version of the object.
func guard(version string) Op { return Op{Op: "replace", Path: guardPath, Value: version} }

func (p *Patch) setIn(parent string, present map[string]string, key, value string, words ...string) *Patch {
	if now, ok := present[key]; ok && now == value {
		return p
	}
	if present == nil && !p.made[parent] {
		p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: parent, Value: map[string]string{}})
		p.made[parent] = true
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: parent + "/" + escape(key), Value: value})
	p.action.Words = append(p.action.Words, words...)
	return p
}

func (p *Patch) removeFrom(parent string, present map[string]string, key string, words ...string) *Patch {
	if _, ok := present[key]; !ok {
		return p
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "remove", Path: parent + "/" + escape(key)})
	p.action.Words = append(p.action.Words, words...)
	return p
}

// escape returns the key as a JSON pointer token (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func short(key string) string { return strings.TrimPrefix(key, api.Prefix) }

// Create creates an object. Its name derives from the operation, so that a second try finds the object of the first one.
func Create(resource Resource, object runtime.Object) Action {
	m := object.(metav1.Object)
	return Action{Verb: VerbCreate, Resource: resource, Namespace: m.GetNamespace(), Name: m.GetName(), Object: object}
}

// Try asks the API server whether it would create the object. An existing object with the name is no obstacle: the API server checks for it
// last, after admission and validation.
func Try(resource Resource, object runtime.Object) Action {
	a := Create(resource, object)
	a.Verb = VerbTry
	return a
}

// Delete deletes the object in the version that was read. It does not delete a newer version, or another object with the name.
func Delete(resource Resource, object metav1.Object) Action {
	return Action{Verb: VerbDelete, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// Evict lets the API server delete this pod, also in a newer version, if the PodDisruptionBudgets allow it.
func Evict(pod metav1.Object) Action {
	return Action{Verb: VerbEvict, Resource: Pods, Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID()}
}

// TryEvict asks the API server whether Evict would be allowed.
func TryEvict(pod metav1.Object) Action {
	a := Evict(pod)
	a.Try = true
	return a
}

// Stop deletes this pod, also in a newer version, and without regard to budgets.
func Stop(pod metav1.Object) Action {
	a := Delete(Pods, pod)
	a.ResourceVersion = ""
	return a
}

// CheckUnchanged ends the plan with a conflict if the object has changed since it was read. It goes before writes to other objects that
// depend on this one.
func CheckUnchanged(resource Resource, object metav1.Object) Action {
	a := Delete(resource, object)
	a.Verb = VerbCheck
	return a
}

// CheckAbsent ends the plan with a conflict if an object with the name exists.
func CheckAbsent(resource Resource, namespace, name string) Action {
	return Action{Verb: VerbCheck, Resource: resource, Namespace: namespace, Name: name}
}

// Event writes a Kubernetes Event on the StatefulSet.
func Event(namespace, set string, note Note) Action {
	return Action{Verb: VerbEvent, Resource: Events, Namespace: namespace, Name: set, Note: note}
}

// EventType returns the type of the Kubernetes Event.
func (n Note) EventType() string {
	if n.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

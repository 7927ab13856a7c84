package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
)

// Patch collects changes of one object. A change that the object has already is left out, so that a write that
// changes nothing is never sent.
type Patch struct {
	action Action
	object metav1.Object
	made   map[string]bool // parents that this patch creates
}

// PatchOf starts a patch of this version of the object. The patch replaces metadata.resourceVersion with the very same value: the API
// server answers 409 when the object has changed since, or is another object of the same name (a resourceVersion is unique in the cluster,
// so it stands for the UID too).
func PatchOf(resource Resource, object metav1.Object) *Patch {
	return &Patch{
		action: Action{Verb: VerbPatch, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName()},
		object: object,
		made:   map[string]bool{},
	}
}

// Annotate sets an annotation. The words of what changes are the key, without its value.
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

// Link ties the object to an operation.
func (p *Patch) Link(link api.Link) *Patch {
	if p.action.Resource == Volumes {
		p.setIn(labels, p.object.GetLabels(), api.NamespaceLabel, link.Namespace)
	}
	return p.Label(api.OperationLabel, link.Operation).Annotate(api.OperationAnnotation, link.Encode())
}

// Unlink removes the tie.
func (p *Patch) Unlink() *Patch {
	if p.action.Resource == Volumes {
		p.removeFrom(labels, p.object.GetLabels(), api.NamespaceLabel)
	}
	return p.Unlabel(api.OperationLabel).Unannotate(api.OperationAnnotation)
}

// Set writes a field, unless is equals want already. Words say what changes.
func Set[T comparable](p *Patch, path string, is, want T, words string) *Patch {
	if is == want {
		return p
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: path, Value: want})
	p.action.Words = append(p.action.Words, words)
	return p
}

// Child returns the value of a map under the name, or of a list at the index in the name, as in a JSON pointer; nil if there is none.
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

// SetField writes the field at the path of an object without a Go type, and makes the parents that it lacks. A list's
// item is named by its index, which is valid because the patch is for this version of the object.
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

// RemoveField removes the field at the path, which is there.
func (p *Patch) RemoveField(path []string) *Patch {
	pointer := ""
	for _, name := range path {
		pointer += "/" + escape(name)
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "remove", Path: pointer})
	p.action.Words = append(p.action.Words, "-"+strings.Join(path, "."))
	return p
}

// Replace writes a field whatever its value was.
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

// RemoveFinalizer removes a finalizer, wherever it stands in the list.
func (p *Patch) RemoveFinalizer(name string) *Patch { return p.RemoveFinalizers(name) }

// RemoveFinalizers removes finalizers in one write, as far as the object has them.
func (p *Patch) RemoveFinalizers(names ...string) *Patch {
	removed := 0
	for i, is := range p.object.GetFinalizers() {
		if !slices.Contains(names, is) {
			continue
		}
		path := fmt.Sprintf("/metadata/finalizers/%d", i-removed) // those before have gone by then
		p.action.Ops = append(p.action.Ops, Op{Op: "test", Path: path, Value: is}, Op{Op: "remove", Path: path})
		p.action.Words = append(p.action.Words, "-finalizer "+short(is))
		removed++
	}
	return p
}

// Empty reports whether the patch changes nothing.
func (p *Patch) Empty() bool { return len(p.action.Ops) == 0 }

// Actions returns the patch with its precondition, or nothing when it changes nothing.
func (p *Patch) Actions() []Action {
	if p.Empty() {
		return nil
	}
	action := p.action
	action.Ops = append([]Op{guard(p.object.GetResourceVersion())}, action.Ops...)
	return []Action{action}
}

const guardPath = "/metadata/resourceVersion"

// guard is the first operation of every patch: it fits no other state of the object than this.
func guard(version string) Op { return Op{Op: "replace", Path: guardPath, Value: version} }

func (p *Patch) setIn(parent string, now map[string]string, key, value string, words ...string) *Patch {
	if is, ok := now[key]; ok && is == value {
		return p
	}
	if now == nil && !p.made[parent] {
		p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: parent, Value: map[string]string{}})
		p.made[parent] = true
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "add", Path: parent + "/" + escape(key), Value: value})
	p.action.Words = append(p.action.Words, words...)
	return p
}

func (p *Patch) removeFrom(parent string, now map[string]string, key string, words ...string) *Patch {
	if _, ok := now[key]; !ok {
		return p
	}
	p.action.Ops = append(p.action.Ops, Op{Op: "remove", Path: parent + "/" + escape(key)})
	p.action.Words = append(p.action.Words, words...)
	return p
}

// escape makes a map key a JSON pointer token (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func short(key string) string { return strings.TrimPrefix(key, api.Prefix) }

// Create makes an object. Its name derives from the operation, so that a second try finds the first one's object.
func Create(resource Resource, object runtime.Object) Action {
	m := object.(metav1.Object)
	return Action{Verb: VerbCreate, Resource: resource, Namespace: m.GetNamespace(), Name: m.GetName(), Object: object}
}

// Try asks the API server whether it would create the object. An object of the same name is no obstacle: the API server
// looks for it last, after admission and validation.
func Try(resource Resource, object runtime.Object) Action {
	a := Create(resource, object)
	a.Verb = VerbTry
	return a
}

// Delete removes exactly the object that was read: another one of the same name, or a newer state of it, stays.
func Delete(resource Resource, object metav1.Object) Action {
	return Action{Verb: VerbDelete, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// Evict has the API server delete exactly this pod, if the PodDisruptionBudgets allow it. A newer state of it counts, too.
func Evict(pod metav1.Object) Action {
	return Action{Verb: VerbEvict, Resource: Pods, Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID()}
}

// TryEvict asks the API server whether Evict would be allowed.
func TryEvict(pod metav1.Object) Action {
	a := Evict(pod)
	a.Try = true
	return a
}

// Stop deletes exactly this pod, whatever budgets say. A newer state of it counts, too.
func Stop(pod metav1.Object) Action {
	a := Delete(Pods, pod)
	a.ResourceVersion = ""
	return a
}

// Unchanged ends the plan with a conflict if the object has changed since it was read. Put it before writes to other objects that rest on this
// one.
func Unchanged(resource Resource, object metav1.Object) Action {
	a := Delete(resource, object)
	a.Verb = VerbCheck
	return a
}

// Absent ends the plan with a conflict if there is an object of the name by now.
func Absent(resource Resource, namespace, name string) Action {
	return Action{Verb: VerbCheck, Resource: resource, Namespace: namespace, Name: name}
}

// Record writes a Kubernetes Event on the StatefulSet.
func Record(namespace, set string, note Note) Action {
	return Action{Verb: VerbRecord, Resource: Events, Namespace: namespace, Name: set, Note: note}
}

// EventType is the type of the Kubernetes Event.
func (n Note) EventType() string {
	if n.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

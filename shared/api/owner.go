package api

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
)

// PauseVersion is the version of the Pause and PausedOwner documents that this code writes and reads.
const PauseVersion = 1

// OwnerPausedAnnotation on a custom resource is the record of a pause. The patch that pauses writes it, and the patch that restores the
// former settings removes it. A pause without it was not made by Drydock.
const OwnerPausedAnnotation = Prefix + "owner-paused"

// Pause has the changes that Drydock made to a custom resource, so that its operator ignores a StatefulSet.
type Pause struct {
	Version int `json:"version"`
	// Settings are the changed settings with their former values.
	Settings []PausedSetting `json:"made"`
	// Holders are the operations that need the pause. The last one restores the former settings.
	Holders []Holder `json:"for"`
}

// Settings is one changed setting: an annotation, a label or a field.
type PausedSetting struct {
	In    string `json:"in"`
	Key   string `json:"key"`
	Value any    `json:"value"`
	// Previous is the former value, absent if there was none.
	Previous any `json:"was,omitempty"`
	// Parents counts the parent objects of a field that did not exist before.
	Parents int `json:"parents,omitempty"`
}

// Holder is an operation on a StatefulSet that needs the pause.
type Holder struct {
	Operation string `json:"operation"`
	Set       string `json:"set"`
	// Fields are those about the set's claims that its operator follows, with the values of the set's templates when the operator last
	// worked. Only a resize has them: its operator may undo what the resize has changed since.
	Fields []OwnerField `json:"fields,omitempty"`
}

// OwnerField is a field of the custom resource about a claim template, with the value that the operator has followed, or "" for none.
type OwnerField struct {
	Template string `json:"template"`
	Path     string `json:"path"`
	Value    string `json:"value,omitempty"`
}

// Holder returns the operation on the set that needs the pause, or nil.
func (p *Pause) Holder(operation, set string) *Holder {
	if p != nil {
		for i := range p.Holders {
			if h := &p.Holders[i]; h.Operation == operation && h.Set == set {
				return h
			}
		}
	}
	return nil
}

// Encode returns the pause as JSON.
func (p *Pause) Encode() string { return mustJSON(p) }

// LoadPause returns the changes that Drydock made to the custom resource, or nil.
func LoadPause(owner metav1.Object) (*Pause, error) {
	text, ok := owner.GetAnnotations()[OwnerPausedAnnotation]
	if !ok {
		return nil, nil
	}
	pause := &Pause{}
	if err := bounded.Document([]byte(text), pause); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s/%s: %w; if no operation runs, restore the settings that the pause changed and "+
			"remove the annotation", OwnerPausedAnnotation, owner.GetNamespace(), owner.GetName(), err)
	}
	if pause.Version != PauseVersion {
		return nil, fmt.Errorf("annotation %s of %s/%s: version is %d, this Drydock reads version %d; update Drydock",
			OwnerPausedAnnotation, owner.GetNamespace(), owner.GetName(), pause.Version, PauseVersion)
	}
	return pause, nil
}

// PausedOwner names the custom resource that an operation pauses: the data of a ControllerRevision in the role RoleOwner. It is written
// before the pause and removed after its end, so that Drydock finds the owner even if the StatefulSet is lost.
type PausedOwner struct {
	Version    int    `json:"version"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Resource is the plural name of the kind.
	Resource string    `json:"resource"`
	Name     string    `json:"name"`
	UID      types.UID `json:"uid"`
	// Stopped is true when the operator stops the set itself.
	Stopped bool `json:"stopped,omitempty"`
}

// Encode returns the record as JSON.
func (p PausedOwner) Encode() []byte { return []byte(mustJSON(p)) }

// LoadPausedOwner returns the record in the ControllerRevision.
func LoadPausedOwner(revision *appsv1.ControllerRevision) (*PausedOwner, error) {
	owner := &PausedOwner{}
	if err := bounded.Document(revision.Data.Raw, owner); err != nil {
		return nil, fmt.Errorf("reading record %s/%s of a paused owner: %w", revision.Namespace, revision.Name, err)
	}
	if owner.Version != PauseVersion || owner.Resource == "" || owner.Name == "" {
		return nil, fmt.Errorf("record %s/%s of a paused owner: version %d, resource %q, name %q cannot be understood; update Drydock",
			revision.Namespace, revision.Name, owner.Version, owner.Resource, owner.Name)
	}
	return owner, nil
}

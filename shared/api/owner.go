package api

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PauseVersion is the version of the Pause and PausedOwner documents that this code writes and reads.
const PauseVersion = 1

// OwnerPausedAnnotation on a custom resource: the Pause document. It is written in the same patch that pauses, and removed
// in the one that puts back what was there, so a pause without it is somebody else's.
const OwnerPausedAnnotation = Prefix + "owner-paused"

// Pause is what Drydock did to a custom resource, so that its operator leaves a StatefulSet alone.
type Pause struct {
	Version int `json:"version"`
	// Made are the settings that were not as the pause needs them, with what was there.
	Made []Made `json:"made"`
	// For are the operations that need the pause. The last one that ends puts back what was there.
	For []Holder `json:"for"`
}

// Made is one setting: an annotation, a label or a field.
type Made struct {
	In    string `json:"in"`
	Key   string `json:"key"`
	Value any    `json:"value"`
	// Was is what was there before; absent when there was nothing.
	Was any `json:"was,omitempty"`
	// Parents counts the objects around a field that were not there either.
	Parents int `json:"parents,omitempty"`
}

// Holder is an operation on a StatefulSet.
type Holder struct {
	Operation string `json:"operation"`
	Set       string `json:"set"`
}

// Encode renders the document.
func (p *Pause) Encode() string { return mustJSON(p) }

// LoadPause reads what Drydock did to the custom resource; nil when it did nothing.
func LoadPause(owner metav1.Object) (*Pause, error) {
	text, ok := owner.GetAnnotations()[OwnerPausedAnnotation]
	if !ok {
		return nil, nil
	}
	pause := &Pause{}
	if err := json.Unmarshal([]byte(text), pause); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s/%s: %w; if no operation runs, put back what the pause has changed and remove the annotation",
			OwnerPausedAnnotation, owner.GetNamespace(), owner.GetName(), err)
	}
	if pause.Version != PauseVersion {
		return nil, fmt.Errorf("annotation %s of %s/%s: version is %d, this Drydock reads version %d; update Drydock",
			OwnerPausedAnnotation, owner.GetNamespace(), owner.GetName(), pause.Version, PauseVersion)
	}
	return pause, nil
}

// PausedOwner says which custom resource an operation is about to pause, or has paused: the data of a ControllerRevision
// in the role RoleOwner. It is written before the pause and removed after its end, so that whatever becomes of the
// StatefulSet, the owner is found.
type PausedOwner struct {
	Version    int    `json:"version"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Resource is the plural of the kind.
	Resource string    `json:"resource"`
	Name     string    `json:"name"`
	UID      types.UID `json:"uid"`
	// Stopped is true when the operator is to stop the set itself.
	Stopped bool `json:"stopped,omitempty"`
}

// Encode renders the document.
func (p PausedOwner) Encode() []byte { return []byte(mustJSON(p)) }

// LoadPausedOwner reads the record out of its ControllerRevision.
func LoadPausedOwner(revision *appsv1.ControllerRevision) (*PausedOwner, error) {
	owner := &PausedOwner{}
	if err := json.Unmarshal(revision.Data.Raw, owner); err != nil {
		return nil, fmt.Errorf("reading record %s/%s of a paused owner: %w", revision.Namespace, revision.Name, err)
	}
	if owner.Version != PauseVersion || owner.Resource == "" || owner.Name == "" {
		return nil, fmt.Errorf("record %s/%s of a paused owner: version %d, resource %q, name %q cannot be understood; update Drydock",
			revision.Namespace, revision.Name, owner.Version, owner.Resource, owner.Name)
	}
	return owner, nil
}

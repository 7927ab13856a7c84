package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
)

// Growth is what grow-volumes stores on a set. It is not the record of an operation: a resize carries out what it requests.
type Growth struct {
	Version int `json:"version"`
	// Set is NAMESPACE/NAME of the StatefulSet. Its UID is not in it: the set that a resize creates again is the same one here.
	Set string `json:"set"`
	// Request is the latest request that it has written into the resize annotation; empty before the first one.
	Request string `json:"request,omitempty"`
	// Asked has the latest growth of each template.
	Asked map[string]AskedGrowth `json:"asked,omitempty"`
	// Told are the Warnings that still hold. Each has had its Event.
	Told []GrowthWarning `json:"told,omitempty"`
}

// AskedGrowth is a growth of a template's claims that was asked for.
type AskedGrowth struct {
	At metav1.Time `json:"at"`
	// Size is the requested size of each claim, at least.
	Size string `json:"size"`
	// Saw is the reason, a sentence.
	Saw string `json:"saw"`
}

// GrowthWarning is something that keeps a template from growing.
type GrowthWarning struct {
	// Template is empty if it concerns the whole set.
	Template string `json:"template,omitempty"`
	Reason   Reason `json:"reason"`
	Message  string `json:"message"`
}

const (
	// GrowthVersion is the version of Growth that this code writes and reads.
	GrowthVersion = 1
	// longestGrowth bounds the document, in bytes. A longer one is not read, and stops growth until it is removed.
	longestGrowth = 32 << 10
	// longestTold bounds the Warnings in the document, in bytes of JSON, and longestWarning the message of one, which quotes what users write.
	longestTold    = longestGrowth / 2
	longestWarning = 512
)

// NewGrowth returns the Growth of a set on which grow-volumes has not stored anything.
func NewGrowth(set *appsv1.StatefulSet) *Growth {
	return &Growth{Version: GrowthVersion, Set: set.Namespace + "/" + set.Name}
}

// LoadGrowth returns what grow-volumes has stored on the set; nil if there is nothing, or if it belongs to another set, as in a copied
// manifest.
func LoadGrowth(set *appsv1.StatefulSet) (*Growth, error) {
	text, ok := set.Annotations[GrowthAnnotation]
	if !ok {
		return nil, nil
	}
	growth := &Growth{}
	if len(text) > longestGrowth {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has %d bytes, at most %d are read; remove it", GrowthAnnotation, set.Namespace,
			set.Name, len(text), longestGrowth)
	}
	if err := bounded.Document([]byte(text), growth); err != nil {
		return nil, fmt.Errorf("reading annotation %s of StatefulSet %s/%s: %w; remove it", GrowthAnnotation, set.Namespace, set.Name, err)
	}
	if growth.Version != GrowthVersion {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has version %d, this Drydock reads version %d; remove it", GrowthAnnotation,
			set.Namespace, set.Name, growth.Version, GrowthVersion)
	}
	if growth.Set != set.Namespace+"/"+set.Name {
		return nil, nil
	}
	return growth, nil
}

// AskedByGrowth reports whether grow-volumes has written the request. Such a resize must not stop a member.
func AskedByGrowth(set *appsv1.StatefulSet, request string) bool {
	growth, err := LoadGrowth(set)
	return err == nil && growth != nil && request != "" && growth.Request == request
}

// Clone returns a copy that can be changed without changing g.
func (g *Growth) Clone() *Growth {
	next := *g
	next.Told, next.Asked = slices.Clone(g.Told), maps.Clone(g.Asked)
	return &next
}

// Tell replaces the warnings by those that hold now, and returns the new ones. It remembers as many as the document has room for.
func (g *Growth) Tell(now []GrowthWarning) []GrowthWarning {
	var news, told []GrowthWarning
	for _, w := range now {
		if len(w.Message) > longestWarning {
			w.Message = strings.ToValidUTF8(w.Message[:longestWarning], "") + "…"
		}
		if told = append(told, w); !slices.Contains(g.Told, w) {
			news = append(news, w)
		}
	}
	slices.SortStableFunc(told, func(a, b GrowthWarning) int { return strings.Compare(a.Template, b.Template) })
	g.Told = nil
	for size := 0; len(told) > 0; told = told[1:] {
		if size += len(mustJSON(told[0])); size > longestTold {
			break
		}
		g.Told = append(g.Told, told[0])
	}
	return news
}

// Empty reports whether there is nothing to store.
func (g *Growth) Empty() bool { return g.Request == "" && len(g.Asked) == 0 && len(g.Told) == 0 }

// Encode renders the document.
func (g *Growth) Encode() string { return mustJSON(g) }

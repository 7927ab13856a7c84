package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
	"drydock.dev/shared/text"
)

// Growth is what grow-volumes stores on a set. It is not the record of an operation: a resize carries out its request.
type Growth struct {
	Version int `json:"version"`
	// Set is NAMESPACE/NAME of the StatefulSet, without UID, so that it stays valid when a resize creates the set again.
	Set string `json:"set"`
	// Request is the latest request that grow-volumes wrote into the resize annotation. It is empty before the first one.
	Request string `json:"request,omitempty"`
	// NewShape has the latest growth of each template, by its name.
	Latest map[string]RequestedGrowth `json:"asked,omitempty"`
	// Warnings has the present warnings. An Event was created for each.
	Warnings []GrowthWarning `json:"told,omitempty"`
}

// RequestedGrowth is a requested growth of a template's claims.
type RequestedGrowth struct {
	At metav1.Time `json:"at"`
	// Size is the smallest size that the request gives each claim.
	Size string `json:"size"`
	// Cause is the cause, a sentence.
	Cause string `json:"saw"`
}

// GrowthWarning says what keeps a template from growing.
type GrowthWarning struct {
	// Template is empty if the warning concerns the whole set.
	Template string `json:"template,omitempty"`
	Reason   Reason `json:"reason"`
	Message  string `json:"message"`
}

const (
	// GrowthVersion is the version of Growth that this code writes and reads.
	GrowthVersion = 1
	// longestGrowth is the limit for the document, in bytes. A longer one is not read; the set does not grow until it is removed.
	longestGrowth = 32 << 10
	// longestTold is the limit for all warnings in the document, in bytes of JSON, and longestWarning for one message, which quotes users.
	longestTold    = longestGrowth / 2
	longestWarning = 512
)

// NewGrowth returns an empty Growth for the set.
func NewGrowth(set *appsv1.StatefulSet) *Growth {
	return &Growth{Version: GrowthVersion, Set: set.Namespace + "/" + set.Name}
}

// LoadGrowth returns what grow-volumes stored on the set. It returns nil if there is nothing, or if it was copied from another set.
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

// RequestedByGrowth reports whether grow-volumes wrote the request. Such a resize must not stop a member.
func RequestedByGrowth(set *appsv1.StatefulSet, request string) bool {
	growth, err := LoadGrowth(set)
	return err == nil && growth != nil && request != "" && growth.Request == request
}

// Clone returns a copy. Changing it does not change g.
func (g *Growth) Clone() *Growth {
	next := *g
	next.Warnings, next.Latest = slices.Clone(g.Warnings), maps.Clone(g.Latest)
	return &next
}

// UpdateWarnings replaces the stored warnings by the present ones, as far as the document has room. It returns the new ones.
func (g *Growth) UpdateWarnings(now []GrowthWarning) []GrowthWarning {
	var news, told []GrowthWarning
	for _, w := range now {
		w.Message = text.Clip(w.Message, longestWarning)
		if told = append(told, w); !slices.Contains(g.Warnings, w) {
			news = append(news, w)
		}
	}
	slices.SortStableFunc(told, func(a, b GrowthWarning) int { return strings.Compare(a.Template, b.Template) })
	g.Warnings = nil
	for size := 0; len(told) > 0; told = told[1:] {
		if size += len(mustJSON(told[0])); size > longestTold {
			break
		}
		g.Warnings = append(g.Warnings, told[0])
	}
	return news
}

// Empty reports whether there is nothing to store.
func (g *Growth) Empty() bool { return g.Request == "" && len(g.Latest) == 0 && len(g.Warnings) == 0 }

// Encode renders the document.
func (g *Growth) Encode() string { return mustJSON(g) }

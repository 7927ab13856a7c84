package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
	"drydock.dev/shared/text"
)

// Growth is what grow-volumes stores on a set beside the floors in GrowToAnnotation. It is not the record of an operation: a resize
// makes the volumes grow to the floors.
type Growth struct {
	Version int `json:"version"`
	// Set is NAMESPACE/NAME of the StatefulSet, without UID, so that it stays valid when a resize creates the set again.
	Set string `json:"set"`
	// After is the resize or rollback in the set's record when grow-volumes raised the floors. It is empty if there was none.
	After string `json:"after,omitempty"`
	// Latest has the latest growth of each template, by its name.
	Latest map[string]RequestedGrowth `json:"asked,omitempty"`
	// Warnings has the present warnings. An Event was created for each.
	Warnings []GrowthWarning `json:"told,omitempty"`
}

// RequestedGrowth is a requested growth of a template's claims.
type RequestedGrowth struct {
	At metav1.Time `json:"at"`
	// Size is the smallest size that the growth gives each claim.
	Size string `json:"size"`
	// Cause is the cause, a sentence.
	Cause string `json:"saw"`
	// Over is the size of the template in the user's request that the growth exceeds, for example "10Gi", or "" if there was none. It is
	// nil if the growth no longer counts, because the user has decided about the size since.
	Over *string `json:"over,omitempty"`
}

// Exceeds reports whether the growth gives claims more than the size. A stored size that cannot be read exceeds every size.
func (g RequestedGrowth) Exceeds(size resource.Quantity) bool {
	grown, err := bounded.Quantity(g.Size)
	return err != nil || grown.Cmp(size) > 0
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
func (g *Growth) Empty() bool { return len(g.Latest) == 0 && len(g.Warnings) == 0 }

// Encode renders the document.
func (g *Growth) Encode() string { return mustJSON(g) }

// WantsSizes reports whether the set has a request or floors of growth by usage. A retry then means the resize.
func WantsSizes(set *appsv1.StatefulSet) bool {
	_, requested := RequestOf(set)
	_, grows := set.Annotations[GrowToAnnotation]
	return requested || grows
}

// ParseGrowTo reads GrowToAnnotation, for example "data=15Gi,logs=2Gi": one size for each template.
func ParseGrowTo(text string) (map[string]resource.Quantity, error) {
	request, err := ParseRequest(text)
	if err != nil {
		return nil, err
	}
	floors := map[string]resource.Quantity{}
	for template, target := range request.Targets {
		if !target.Exact || target.Class != "" || target.Attributes != nil || len(target.Modes) > 0 {
			return nil, fmt.Errorf("%s=%.200q has more than a size for template %s", GrowToAnnotation, text, template)
		}
		floors[template] = target.Size
	}
	if request.Auto || len(request.Fields) > 0 {
		return nil, fmt.Errorf("%s=%.200q has more than sizes of templates", GrowToAnnotation, text)
	}
	return floors, nil
}

// FormatGrowTo returns the text of GrowToAnnotation, by template. A size is a number with a binary suffix: the admission policy for
// Drydock's account accepts no exponent such as 1e12 (config/policy/fence-sets.yaml).
func FormatGrowTo(floors map[string]resource.Quantity) string {
	var parts []string
	for template, size := range floors {
		parts = append(parts, template+"="+resource.NewQuantity(size.Value(), resource.BinarySI).String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

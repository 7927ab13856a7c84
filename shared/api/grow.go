package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/bounded"
	"drydock.dev/shared/text"
)

// GrowOff is the value of the grow annotation that excludes a set from the rules of its namespace.
const GrowOff = "off"

// AnyTemplate matches every volumeClaimTemplate that the grow annotation does not name.
const AnyTemplate = "*"

// Amount is a share of a volume in percent, or a number of bytes.
type Amount struct {
	Percent int64
	// Bytes applies if Percent is 0.
	Bytes int64
}

// Of returns the amount in bytes for a volume of size bytes, rounded up.
func (a Amount) Of(size int64) int64 {
	if a.Percent == 0 {
		return a.Bytes
	}
	return size/100*a.Percent + (size%100*a.Percent+99)/100
}

// String returns the amount in the syntax of the annotation.
func (a Amount) String() string {
	if a.Percent > 0 {
		return fmt.Sprintf("%d%%", a.Percent)
	}
	return resource.NewQuantity(a.Bytes, resource.BinarySI).String()
}

// GrowRule says when the claims of a template grow, and by how much.
type GrowRule struct {
	// Below is the free space under which the template grows.
	Below Amount
	// Inodes is the share of free inodes under which the template grows, in percent.
	Inodes int64
	// By is added to the size of the fullest claim.
	By Amount
	// Max is the largest size of a claim.
	Max resource.Quantity
	// Every is the shortest time between two growths. Zero means no pause, or DefaultGrowPause after a failed expansion.
	Every time.Duration
}

// DefaultGrowPause is the pause after a failed expansion. EBS accepts one change of a volume in six hours.
const DefaultGrowPause = 6 * time.Hour

// Pause returns how long no growth is requested after a failed expansion.
func (r GrowRule) Pause() time.Duration {
	if r.Every > 0 {
		return r.Every
	}
	return DefaultGrowPause
}

// Limits for the grow annotation.
const (
	longestGrow   = 4 << 10
	mostGrowRules = 32
	shortestEvery = time.Minute
	longestEvery  = 366 * 24 * time.Hour
)

const growFormat = `write TEMPLATE=max:SIZE, then below:FREE, inodes:PERCENT, by:AMOUNT and every:DURATION as needed, separated by ` +
	`commas, and several templates separated by semicolons, as "data=below:15%,by:20%,max:500Gi"; or "off"`

// ParseGrow reads the value of the grow annotation. GrowOff yields no rules:
//
//	data=max:500Gi                       claims of template data grow up to 500Gi
//	data=below:15%,by:20%,max:500Gi      by 20% when less than 15% is free; bytes are possible, too, as below:2Gi
//	data=inodes:5%,max:500Gi             when less than 5% of the inodes are free
//	data=max:500Gi,every:6h              at most once in six hours
//	data=max:500Gi;*=max:50Gi            several templates; * matches all others
func ParseGrow(text string) (map[string]GrowRule, error) {
	if len(text) > longestGrow {
		return nil, fmt.Errorf("the rules for growth have %d bytes, at most %d are read; shorten them", len(text), longestGrow)
	}
	rules := map[string]GrowRule{}
	if strings.TrimSpace(text) == GrowOff {
		return rules, nil
	}
	for _, part := range strings.Split(text, ";") {
		template, rule, err := parseGrowRule(strings.TrimSpace(part))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q: %w; %s", text, err, growFormat)
		case len(rules) == mostGrowRules:
			return nil, fmt.Errorf("more than %d templates are named; name fewer", mostGrowRules)
		}
		if _, twice := rules[template]; twice {
			return nil, fmt.Errorf("%q: template %q is named twice; name each once", text, template)
		}
		rules[template] = rule
	}
	return rules, nil
}

func parseGrowRule(part string) (string, GrowRule, error) {
	template, rest, ok := strings.Cut(part, "=")
	if !ok {
		return "", GrowRule{}, fmt.Errorf("%q names no template", part)
	}
	if problems := validation.IsDNS1123Label(template); len(problems) > 0 && template != AnyTemplate {
		return "", GrowRule{}, fmt.Errorf("template %q: %s", template, problems[0])
	}
	rule := GrowRule{Below: Amount{Percent: 10}, Inodes: 10, By: Amount{Percent: 10}}
	seen := map[string]bool{}
	for _, item := range strings.Split(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(item), ":")
		if seen[key] {
			return "", GrowRule{}, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := rule.set(key, value); err != nil {
			return "", GrowRule{}, err
		}
	}
	if !seen["max"] {
		return "", GrowRule{}, errors.New("max is missing")
	}
	return template, rule, nil
}

func (r *GrowRule) set(key, value string) (err error) {
	switch key {
	case "below":
		r.Below, err = parseAmount(value, 99)
	case "by":
		r.By, err = parseAmount(value, 1000)
	case "inodes":
		r.Inodes, err = parsePercent(value, 99)
	case "max":
		if r.Max, err = bounded.Quantity(value); err == nil && r.Max.Sign() <= 0 {
			err = errors.New("it is not positive")
		}
	case "every":
		r.Every, err = time.ParseDuration(value)
		if err != nil || r.Every < shortestEvery || r.Every > longestEvery {
			err = fmt.Errorf("write a duration from %s to %s, as 6h", shortestEvery, longestEvery)
		}
	default:
		return fmt.Errorf("%q is not a known rule", key)
	}
	if err != nil {
		return fmt.Errorf("%s:%s: %w", key, value, err)
	}
	return nil
}

func parseAmount(text string, most int64) (Amount, error) {
	if strings.HasSuffix(text, "%") {
		percent, err := parsePercent(text, most)
		return Amount{Percent: percent}, err
	}
	quantity, err := bounded.Quantity(text)
	if err == nil && quantity.Value() <= 0 {
		err = errors.New("it is not positive")
	}
	return Amount{Bytes: quantity.Value()}, err
}

// parsePercent reads a whole percentage from 1 to most.
func parsePercent(text string, most int64) (int64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || percent < 1 || percent > most {
		return 0, fmt.Errorf("write a whole percentage from 1%% to %d%%", most)
	}
	return percent, nil
}

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

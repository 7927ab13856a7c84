package api

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// DefaultMaxStop is how long a member may be stopped in a rolling resize without MaxStopAnnotation.
const DefaultMaxStop = time.Minute

// Values of CutoverAnnotation other than windows.
const (
	CutoverAuto    = "auto"
	CutoverApprove = "approve"
)

// Values of FirstPassAnnotation.
const (
	FirstPassAuto = "auto"
	FirstPassOff  = "off"
)

// StrategyOf returns the requested strategy of the set. It returns false if the annotation has an unknown value.
func StrategyOf(set *appsv1.StatefulSet) (Strategy, bool) {
	switch s := Strategy(set.Annotations[StrategyAnnotation]); s {
	case "":
		return StrategyWhole, true
	case StrategyWhole, StrategyRolling:
		return s, true
	}
	return StrategyWhole, false
}

// MaxStop returns how long a member may be stopped for its final pass; 0 means no limit. It returns false if the annotation is not a
// positive duration.
func MaxStop(set *appsv1.StatefulSet, strategy Strategy) (time.Duration, bool) {
	text, otherwise := set.Annotations[MaxStopAnnotation], time.Duration(0)
	if strategy == StrategyRolling {
		otherwise = DefaultMaxStop
	}
	if text == "" {
		return otherwise, true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return otherwise, false
	}
	return d, true
}

// PrimaryLabel returns the label that marks the primary of the set. It returns false if the set names none.
func PrimaryLabel(set *appsv1.StatefulSet) (key, value string, ok bool) {
	key, value, ok = strings.Cut(set.Annotations[PrimaryAnnotation], "=")
	return strings.TrimSpace(key), strings.TrimSpace(value), ok && strings.TrimSpace(key) != ""
}

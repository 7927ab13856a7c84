package api

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// DefaultMaxStop is for how long a member may be stopped in a rolling resize where MaxStopAnnotation says nothing.
const DefaultMaxStop = time.Minute

// Values of CutoverAnnotation that are no windows.
const (
	CutoverAuto    = "auto"
	CutoverApprove = "approve"
)

// StrategyOf returns the strategy that the set asks for. It reports false if the annotation has another value.
func StrategyOf(set *appsv1.StatefulSet) (Strategy, bool) {
	switch s := Strategy(set.Annotations[StrategyAnnotation]); s {
	case "":
		return StrategyWhole, true
	case StrategyWhole, StrategyRolling:
		return s, true
	}
	return StrategyWhole, false
}

// MaxStop returns for how long a member may be stopped for its final pass; 0 means any time. It reports false if the annotation is no
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

// PrimaryLabel returns the label by which the set tells its primary. It reports false if the set names none.
func PrimaryLabel(set *appsv1.StatefulSet) (key, value string, ok bool) {
	key, value, ok = strings.Cut(set.Annotations[PrimaryAnnotation], "=")
	return strings.TrimSpace(key), strings.TrimSpace(value), ok && strings.TrimSpace(key) != ""
}

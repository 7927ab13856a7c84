// Package idle decides when a StatefulSet sleeps and when it is awake, from the annotations of the set and of the other sets of its
// group. It is pure. sift uses it to find the concerned functions, idle-timeout to decide, and the wake gateway to extend sessions.
package idle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/text"
	"drydock.dev/shared/window"
)

// Rules holds the parsed annotations of a StatefulSet about its sleep.
type Rules struct {
	Paused bool
	// Timeout is the idle timeout, or 0 if the set has none.
	Timeout      time.Duration
	LastActivity time.Time
	// SleepRequested is when a user requested the group's sleep, or zero.
	SleepRequested time.Time
	AwakeUntil     time.Time
	KeepWarm       []window.Window
	MinUptime      time.Duration
	DependsOn      []string
	// WakeReplicas is the replica count for a set at zero without a sleep of Drydock. If it is 0, such a set stays at zero.
	WakeReplicas int32
	Probe        *probe.Probe
	// WakeReady is how many replicas have to be ready before a waking set counts as awake; see EnoughReady.
	WakeReady int32
}

// Limits of durations. A timeout shorter than a few ticks would make a set flap.
const (
	minDuration = 10 * time.Second
	maxDuration = 366 * 24 * time.Hour
)

// maxRuleBytes limits an annotation, in bytes, because the sweep holds the rules of every opted-in set of the cluster at once.
const maxRuleBytes = 4 << 10

// maxQuotedBytes and maxProblemBytes limit the error about an invalid annotation. The sweep holds it, too.
const (
	maxQuotedBytes  = 64
	maxProblemBytes = 256
)

// ParseRules parses the annotations. Its error lists every invalid annotation. The rules are then unreliable.
func ParseRules(set *appsv1.StatefulSet) (Rules, error) {
	var r Rules
	read := func(key string, parse func(text string) error) error {
		value, ok := set.Annotations[key]
		if !ok {
			return nil
		}
		if len(value) > maxRuleBytes {
			return fmt.Errorf("%s on StatefulSet %s/%s has %d bytes, and at most %d are allowed; shorten it",
				key, set.Namespace, set.Name, len(value), maxRuleBytes)
		}
		if err := parse(value); err != nil {
			return fmt.Errorf("%s=%q on StatefulSet %s/%s: %s", key, text.Clip(value, maxQuotedBytes), set.Namespace, set.Name,
				text.Clip(err.Error(), maxProblemBytes))
		}
		return nil
	}
	err := errors.Join(
		read(api.PausedAnnotation, boolInto(&r.Paused)),
		read(api.IdleTimeoutAnnotation, durationInto(&r.Timeout)),
		read(api.LastActivityAnnotation, timeInto(&r.LastActivity)),
		read(api.SleepRequestedAnnotation, timeInto(&r.SleepRequested)),
		read(api.AwakeUntilAnnotation, timeInto(&r.AwakeUntil)),
		read(api.KeepWarmAnnotation, into(&r.KeepWarm, window.Parse)),
		read(api.MinUptimeAnnotation, durationInto(&r.MinUptime)),
		read(api.DependsOnAnnotation, into(&r.DependsOn, parseNames)),
		read(api.WakeReplicasAnnotation, into(&r.WakeReplicas, parseReplicas)),
		read(api.ActivityProbeAnnotation, into(&r.Probe, probe.Parse)),
		read(api.WakeReadyAnnotation, into(&r.WakeReady, ParseWakeReady)),
		groupOf(set),
	)
	return r, err
}

// into returns a parser that stores its result in the target.
func into[T any](target *T, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*target, err = parse(text)
		return err
	}
}

func boolInto(target *bool) func(string) error {
	return into(target, func(text string) (bool, error) {
		switch text {
		case "true":
			return true, nil
		case "false", "":
			return false, nil
		}
		return false, errors.New(`write "true", or remove the annotation`)
	})
}

func durationInto(target *time.Duration) func(string) error {
	return into(target, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil || d < minDuration || d > maxDuration {
			return 0, fmt.Errorf(`write a duration from %s to %s, for example "30m" or "1h30m"`, minDuration, maxDuration)
		}
		return d, nil
	})
}

func timeInto(target *time.Time) func(string) error {
	return into(target, func(text string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return time.Time{}, errors.New(`write a time in the format of RFC 3339, for example "2026-03-01T18:00:00Z"`)
		}
		return t, nil
	})
}

// parseNames reads names of StatefulSets, and returns them sorted without duplicates.
func parseNames(text string) ([]string, error) {
	names := strings.Split(text, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
		if problems := validation.IsDNS1123Subdomain(names[i]); len(problems) > 0 {
			return nil, fmt.Errorf("%q is not the name of a StatefulSet; write names separated by commas", names[i])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// groupOf returns an error if the name of the group is empty. The API server has validated the label.
func groupOf(set *appsv1.StatefulSet) error {
	if group, ok := set.Labels[api.GroupLabel]; ok && group == "" {
		return fmt.Errorf("label %s of StatefulSet %s/%s is empty; name a group or remove it", api.GroupLabel, set.Namespace, set.Name)
	}
	return nil
}

// Throttle returns how old the stored activity has to be before a newer one is stored: a tenth of the timeout, at most a minute. The
// timeout is extended by it, so that a set does not fall asleep early because an activity was not stored.
func Throttle(timeout time.Duration) time.Duration { return min(timeout/10, time.Minute) }

// FormatTime returns the time in the format of the annotations.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Package idle knows when a StatefulSet is to be awake: what people write on it, and what follows for it and for the sets
// of its group at a time. It is pure; sift asks it who has to look, idle-timeout what to do, the wake gateway what to write.
package idle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
)

// Rules are what people, and events, have written on a StatefulSet.
type Rules struct {
	Paused bool
	// Timeout is 0 where no clock puts the set to sleep.
	Timeout      time.Duration
	LastActivity time.Time
	// SleepRequested is when a user asked for the group's sleep; zero if none did.
	SleepRequested time.Time
	AwakeUntil     time.Time
	KeepWarm       []Window
	MinUptime      time.Duration
	DependsOn      []string
	// WakeReplicas is 0 where a set at zero that Drydock did not put to sleep stays there.
	WakeReplicas int32
	Probe        *Probe
	// WakeReady is how many replicas have to be ready before a set that wakes counts as awake; see EnoughReady.
	WakeReady int32
}

// Bounds of what people may write. A timeout below a few ticks would make a set flap.
const (
	shortest = 10 * time.Second
	longest  = 366 * 24 * time.Hour
)

// longestRule bounds an annotation, in bytes: the sweep keeps the rules of every opted-in set of the cluster at once.
const longestRule = 4 << 10

// mostReplicas bounds what a set is woken to where Drydock has not counted itself.
const mostReplicas = 1000

// Read takes the annotations apart. All that is wrong with them is told at once; the rules are then not to be relied on.
func Read(set *appsv1.StatefulSet) (Rules, error) {
	var r Rules
	read := func(key string, parse func(text string) error) error {
		text, ok := set.Annotations[key]
		if !ok {
			return nil
		}
		if len(text) > longestRule {
			return fmt.Errorf("%s on StatefulSet %s/%s has %d bytes, at most %d are read; shorten it", key, set.Namespace, set.Name, len(text), longestRule)
		}
		if err := parse(text); err != nil {
			return fmt.Errorf("%s=%q on StatefulSet %s/%s: %w", key, text, set.Namespace, set.Name, err)
		}
		return nil
	}
	err := errors.Join(
		read(api.PausedAnnotation, boolInto(&r.Paused)),
		read(api.IdleTimeoutAnnotation, durationInto(&r.Timeout)),
		read(api.LastActivityAnnotation, timeInto(&r.LastActivity)),
		read(api.SleepRequestedAnnotation, timeInto(&r.SleepRequested)),
		read(api.AwakeUntilAnnotation, timeInto(&r.AwakeUntil)),
		read(api.KeepWarmAnnotation, into(&r.KeepWarm, ParseWindows)),
		read(api.MinUptimeAnnotation, durationInto(&r.MinUptime)),
		read(api.DependsOnAnnotation, into(&r.DependsOn, parseNames)),
		read(api.WakeReplicasAnnotation, into(&r.WakeReplicas, parseReplicas)),
		read(api.ActivityProbeAnnotation, into(&r.Probe, ParseProbe)),
		read(api.WakeReadyAnnotation, into(&r.WakeReady, ParseWakeReady)),
		groupOf(set),
	)
	return r, err
}

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
		if err != nil || d < shortest || d > longest {
			return 0, fmt.Errorf(`write a duration from %s to %s, as "30m" or "1h30m"`, shortest, longest)
		}
		return d, nil
	})
}

func timeInto(target *time.Time) func(string) error {
	return into(target, func(text string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return time.Time{}, errors.New(`write a time as RFC 3339 has it, as "2026-03-01T18:00:00Z"`)
		}
		return t, nil
	})
}

func parseReplicas(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > mostReplicas {
		return 0, fmt.Errorf("write a whole number from 1 to %d", mostReplicas)
	}
	return int32(n), nil
}

// parseNames reads names of StatefulSets.
func parseNames(text string) ([]string, error) {
	names := strings.Split(text, ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
		if problems := validation.IsDNS1123Subdomain(names[i]); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no name of a StatefulSet; write names separated by commas", names[i])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// groupOf reads only whether there is a name: the API server has checked that it is a label's value.
func groupOf(set *appsv1.StatefulSet) error {
	if group, ok := set.Labels[api.GroupLabel]; ok && group == "" {
		return fmt.Errorf("label %s of StatefulSet %s/%s is empty; name a group or remove it", api.GroupLabel, set.Namespace, set.Name)
	}
	return nil
}

// Throttle is how old a recorded activity may get before a newer one is written: a tenth of the timeout, at most a minute.
// The timeout counts from there, so that a set is never put to sleep early for an activity that was not written.
func Throttle(timeout time.Duration) time.Duration { return min(timeout/10, time.Minute) }

// Stamp is a time as the annotations hold it.
func Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

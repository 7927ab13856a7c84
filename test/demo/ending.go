package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
)

// platformTime is how long Kubernetes may take to finish its own work after the end of the operation.
const platformTime = time.Minute

// measureAfter collects the data for the verdict.
func (s *scenario) measureAfter(ctx context.Context) (err error) {
	o := &s.outcome
	set, err := s.cluster.AppsV1().StatefulSets(s.namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", setName, err)
	}
	o.specReplicas, o.template = *set.Spec.Replicas, templateSize(set)
	// After a rollback the replicas may still be starting.
	err = waitFor(ctx, platformTime, func(ctx context.Context) (missing string, err error) {
		o.notReady, err = s.cluster.notReady(ctx, s.namespace)
		return o.notReady, err
	})
	if err != nil && o.notReady == "" {
		return err
	}
	if o.notReady == "" {
		if o.after, err = s.cluster.measureAll(ctx, s.namespace); err != nil {
			return err
		}
	}
	// Deleted objects may still be terminating.
	listed := false
	err = waitFor(ctx, platformTime, func(ctx context.Context) (string, error) {
		now, err := s.cluster.listObjects(ctx, s.namespace)
		if err != nil {
			return "", err
		}
		listed = true
		o.retained, o.leftovers = findLeftovers(s.found, now, o.status.Operation, time.Now())
		return strings.Join(o.leftovers, "; "), nil
	})
	if listed && ctx.Err() == nil {
		return nil // judge reports the leftovers
	}
	return err
}

// judge prints the result and returns the failed checks.
func (s *scenario) judge() error {
	o := s.outcome
	s.screen.Line(show.Plain, "")
	for _, line := range show.Table("  ", o.rows(s.observer.downtime)...) {
		s.screen.Line(show.Plain, "%s", line)
	}
	s.screen.Line(show.Plain, "")
	s.screen.Line(show.Plain, "  no replica was ready for %.1f s%s", s.observer.downtime.ofSet().Seconds(), statusTimes(o.status))
	s.screen.Line(show.Plain, "  %d of %d calls of the client were answered", o.answered, o.answered+o.failed)
	s.screen.Line(show.Plain, "  old volumes: %s", retainedText(o.retained))
	var problems []error
	for _, problem := range o.problems() {
		problems = append(problems, errors.New(problem))
	}
	return errors.Join(problems...)
}

// statusTimes returns the times from the record, which are in whole seconds.
func statusTimes(status *api.Resize) string {
	var longest time.Duration
	for _, m := range status.Members {
		if m.HeldAt != nil && m.ReadyAt != nil {
			longest = max(longest, m.ReadyAt.Sub(m.HeldAt.Time))
		}
	}
	if longest == 0 || status.Finished == nil {
		return ""
	}
	return fmt.Sprintf("; the record says %.0f s for the longest stop of a member, %.0f s in all", longest.Seconds(),
		status.Finished.Sub(status.Started.Time).Seconds())
}

// close stops Drydock and cleans up, also after a signal.
func (s *scenario) close(ctx context.Context, failed error) error {
	s.clock.stop()
	var lines []logLine
	if s.child != nil {
		lines = s.child.end()
	}
	trouble := incidents(lines)
	if trouble != "" {
		s.screen.Line(show.Plain, "  incidents: %s; the log is %s", trouble, s.child.log)
	}
	err := s.reportWrites(lines)
	if n := countDeadLettered(lines); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d events went to the dead-letter sink. Read %s", n, s.child.log))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime+30*time.Second)
	defer cancel()
	s.screen.DetachBars()
	if s.keep {
		s.screen.Line(show.Plain, "\nNamespace %s and its volumes are kept. The next run deletes them. Logs: %s", s.namespace, s.folder)
		return err
	}
	s.screen.Line(show.Bold, "\nCleaning up")
	began := time.Now()
	if clearing := s.cluster.clear(ctx, s.namespace); clearing != nil {
		return errors.Join(err, fmt.Errorf("cleaning up: %w", clearing))
	}
	s.screen.Line(show.Dim, "  %.1f s", time.Since(began).Seconds())
	if failed == nil && err == nil && trouble == "" {
		err = os.RemoveAll(s.folder)
	}
	return err
}

// reportWrites prints and stores the writes to the API server.
func (s *scenario) reportWrites(lines []logLine) error {
	if s.outcome.status == nil || !s.showWrites && s.writes == "" {
		return nil
	}
	list := numbered(writesOf(lines, s.outcome.status))
	if s.showWrites {
		s.screen.Line(show.Bold, "\nWritten to the API server, in this order:")
		for _, line := range list {
			s.screen.Line(show.Plain, "%s", line)
		}
	}
	if s.writes == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Clean(s.writes), []byte(strings.Join(list, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the list of writes: %w", err)
	}
	return nil
}

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

// settleTime is how long what the platform itself has to do may last after the end of the operation.
const settleTime = time.Minute

// lookAfter gathers what the verdict is passed on.
func (s *scene) lookAfter(ctx context.Context) (err error) {
	o := &s.outcome
	set, err := s.cluster.AppsV1().StatefulSets(s.namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", setName, err)
	}
	o.wanted, o.template = *set.Spec.Replicas, templateSize(set)
	// After a roll-back the replicas are still on their way.
	err = waitFor(ctx, settleTime, func(ctx context.Context) (what string, err error) {
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
	// Objects that were deleted may be on their way still.
	looked := false
	err = waitFor(ctx, settleTime, func(ctx context.Context) (string, error) {
		now, err := s.cluster.search(ctx, s.namespace)
		if err != nil {
			return "", err
		}
		looked = true
		o.kept, o.wrong = leftBehind(s.found, now, o.status.Operation, time.Now())
		return strings.Join(o.wrong, "; "), nil
	})
	if looked && ctx.Err() == nil {
		return nil // what is left is for judge to say
	}
	return err
}

// judge prints the end and says what is not as it should be.
func (s *scene) judge() error {
	o := s.outcome
	s.screen.Line(show.Plain, "")
	for _, line := range show.Table("  ", o.rows(s.audience.downtime)...) {
		s.screen.Line(show.Plain, "%s", line)
	}
	s.screen.Line(show.Plain, "")
	s.screen.Line(show.Plain, "  no replica was ready for %.1f s%s", s.audience.downtime.ofAll().Seconds(), statusTimes(o.status))
	s.screen.Line(show.Plain, "  the client was answered %d of %d times", o.answered, o.answered+o.failed)
	s.screen.Line(show.Plain, "  left behind: %s", keptText(o.kept))
	var problems []error
	for _, problem := range o.problems() {
		problems = append(problems, errors.New(problem))
	}
	return errors.Join(problems...)
}

// statusTimes are the times that the record holds, in whole seconds.
func statusTimes(status *api.Resize) string {
	var longest time.Duration
	for _, m := range status.Members {
		if m.Held != nil && m.Ready != nil {
			longest = max(longest, m.Ready.Sub(m.Held.Time))
		}
	}
	if longest == 0 || status.Finished == nil {
		return ""
	}
	return fmt.Sprintf("; by the record, the longest stop of a member took %.0f s of %.0f s in all", longest.Seconds(),
		status.Finished.Sub(status.Started.Time).Seconds())
}

// close ends the child, and clears the stage even after a signal.
func (s *scene) close(ctx context.Context, failed error) error {
	s.clock.end()
	var lines []logLine
	if s.child != nil {
		lines = s.child.end()
	}
	rough := hurdles(lines)
	if rough != "" {
		s.screen.Line(show.Plain, "  on the way: %s; the log is %s", rough, s.child.log)
	}
	err := s.tellWrites(lines)
	if n := givenUp(lines); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d events were given up; see %s", n, s.child.log))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime+30*time.Second)
	defer cancel()
	s.screen.Settle()
	if s.keep {
		s.screen.Line(show.Plain, "\nNamespace %s and its volumes stay; the next run deletes them. Logs: %s", s.namespace, s.folder)
		return err
	}
	s.screen.Line(show.Bold, "\nClearing up")
	began := time.Now()
	if clearing := s.cluster.clear(ctx, s.namespace); clearing != nil {
		return errors.Join(err, fmt.Errorf("clearing up: %w", clearing))
	}
	s.screen.Line(show.Dim, "  %.1f s", time.Since(began).Seconds())
	if failed == nil && err == nil && rough == "" {
		err = os.RemoveAll(s.folder)
	}
	return err
}

// tellWrites shows and stores what was written to the API server.
func (s *scene) tellWrites(lines []logLine) error {
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

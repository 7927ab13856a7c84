package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/test/demo/show"
)

// fillTime is how long the replicas may take to start and to fill their volumes.
const fillTime = 5 * time.Minute

// scenario is one run of the demo, from cleaning up to the verdict.
type scenario struct {
	options
	cluster  *cluster
	screen   *show.Screen
	folder   string // for logs
	child    *child
	clock    *clock
	observer *observer
	found    []foundObject // objects before the resize
	outcome  outcome
}

// run runs the demo, cleans up, and returns the exit code.
func run(ctx context.Context, o options, screen *show.Screen) int {
	s := &scenario{options: o, screen: screen, clock: &clock{}}
	err := s.open()
	if err == nil {
		err = s.runSteps(ctx)
		if closing := s.close(ctx, err); closing != nil {
			err = errors.Join(err, closing)
		}
	}
	screen.DetachBars()
	if err == nil {
		screen.Line(show.Good, "\nAll checks passed.")
		return 0
	}
	screen.Line(show.Bad, "\nThese checks failed:")
	for _, line := range strings.Split(err.Error(), "\n") {
		screen.Line(show.Bad, "  ✗ %s", line)
	}
	if s.child != nil {
		screen.Line(show.Plain, "\nDrydock's log is %s. Its last lines:", s.child.log)
		for _, line := range s.child.lastLines() {
			screen.Line(show.Plain, "  %s", line)
		}
	}
	return 1
}

// open parses the sizes, connects to the cluster and creates the folder for logs.
func (s *scenario) open() (err error) {
	for text, into := range map[string]*resource.Quantity{s.to: &s.outcome.to, s.from: new(resource.Quantity)} {
		if *into, err = bounded.Quantity(text); err != nil {
			return fmt.Errorf("size %q: %w", text, err)
		}
	}
	if s.cluster, err = connect(); err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "drydock-demo-"); err != nil {
		return fmt.Errorf("making a folder for logs: %w", err)
	}
	s.observer = newObserver(s.cluster, s.namespace, s.screen, s.clock)
	return nil
}

// runSteps runs all steps, then checks the result.
func (s *scenario) runSteps(ctx context.Context) error {
	for _, step := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Deleting what an earlier run may have left", func(ctx context.Context) error { return s.cluster.clear(ctx, s.namespace) }},
		{fmt.Sprintf("Starting %d replicas with volumes of %s, class %s, filling them, and calling their Service every 20 ms", replicas,
			s.from, s.class), s.startSet},
		{"Starting drydock-standalone", s.startDrydock},
		{"Computing checksums of every file, link, owner, mode and time", s.measureBefore},
		{fmt.Sprintf("Requesting %s: kubectl annotate statefulset %s %s=%s", s.to, setName, api.ResizeAnnotation, s.request()), s.resize},
		{"Computing the checksums again", s.measureAfter},
	} {
		s.screen.DetachBars()
		s.screen.Line(show.Bold, "\n%s", step.title)
		began := time.Now()
		if err := step.run(ctx); err != nil {
			return err
		}
		s.screen.DetachBars()
		s.screen.Line(show.Dim, "  %.1f s", time.Since(began).Seconds())
	}
	return s.judge()
}

func (s *scenario) request() string { return templateName + "=" + s.to }

// startSet creates the namespace and the set, and waits until every volume is filled.
func (s *scenario) startSet(ctx context.Context) error {
	if _, err := s.cluster.CoreV1().Namespaces().Create(ctx, makeNamespace(s.namespace), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", s.namespace, err)
	}
	if _, err := s.cluster.CoreV1().Services(s.namespace).Create(ctx, makeService(s.namespace), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating service %s: %w", setName, err)
	}
	if err := s.expose(ctx); err != nil {
		return err
	}
	set := makeSet(s.options, resource.MustParse(s.from))
	if _, err := s.cluster.AppsV1().StatefulSets(s.namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating StatefulSet %s: %w", setName, err)
	}
	return waitFor(ctx, fillTime, func(ctx context.Context) (string, error) { return s.cluster.notReady(ctx, s.namespace) })
}

// expose creates the Service with an address, the PodDisruptionBudget and the client that calls the Service.
func (s *scenario) expose(ctx context.Context) error {
	front, err := s.cluster.CoreV1().Services(s.namespace).Create(ctx, makeFrontService(s.namespace), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating service %s: %w", frontName, err)
	}
	if _, err := s.cluster.PolicyV1().PodDisruptionBudgets(s.namespace).Create(ctx, makeBudget(s.namespace),
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating PodDisruptionBudget %s: %w", setName, err)
	}
	if _, err := s.cluster.CoreV1().Pods(s.namespace).Create(ctx, makeClient(s.options, front.Spec.ClusterIP),
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating pod %s: %w", clientName, err)
	}
	return nil
}

// startDrydock starts Drydock's functions and the watches.
func (s *scenario) startDrydock(ctx context.Context) (err error) {
	if s.child, err = startChild(s.options, s.folder, s.observer.onEvent); err != nil {
		return err
	}
	if err := s.child.awaitReady(ctx); err != nil {
		return err
	}
	return s.observer.watch(ctx)
}

func (s *scenario) measureBefore(ctx context.Context) (err error) {
	if s.outcome.before, err = s.cluster.measureAll(ctx, s.namespace); err != nil {
		return err
	}
	for i, m := range s.outcome.before {
		s.screen.Line(show.Plain, "  %s  %s  %d entries, %s", replica(i), short(m.checksum), m.entries, m.space)
	}
	s.found, err = s.cluster.listObjects(ctx, s.namespace)
	return err
}

// resize requests the new size and returns when the operation has ended.
func (s *scenario) resize(ctx context.Context) error {
	s.clock.start()
	ctx, done := context.WithCancel(ctx)
	defer done()
	if err := s.observer.calls.read(ctx, s.cluster, s.namespace); err != nil {
		return err
	}
	defer func() { s.outcome.answered, s.outcome.failed = s.observer.calls.counts() }()
	patch := mergePatch("metadata", map[string]any{"annotations": map[string]string{api.ResizeAnnotation: s.request()}})
	if _, err := s.cluster.AppsV1().StatefulSets(s.namespace).Patch(ctx, setName, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating StatefulSet %s: %w", setName, err)
	}
	select {
	case s.outcome.status = <-s.observer.finished:
		return nil
	case <-s.child.exited:
		return s.child.exitError()
	case <-time.After(s.timeout):
		return fmt.Errorf("the resize did not end within %s: %s", s.timeout, s.recordText(ctx))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordText returns the record of the set as text, for an error message.
func (s *scenario) recordText(ctx context.Context) string {
	set, err := s.cluster.AppsV1().StatefulSets(s.namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return "its status is " + set.Annotations[api.StatusAnnotation]
}

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

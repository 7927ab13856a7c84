package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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

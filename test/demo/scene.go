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
	"drydock.dev/test/demo/show"
)

// fillTime is how long the replicas may take to start and to fill their volumes.
const fillTime = 5 * time.Minute

// scene is one resize from the first curtain to the last.
type scene struct {
	options
	cluster  *cluster
	screen   *show.Screen
	folder   string // for logs
	child    *child
	clock    *clock
	audience *audience
	found    []found // what there was before
	outcome  outcome
}

// play plays the scene, clears up, and returns the exit code.
func play(ctx context.Context, o options, screen *show.Screen) int {
	s := &scene{options: o, screen: screen, clock: &clock{}}
	err := s.open()
	if err == nil {
		err = s.perform(ctx)
		if closing := s.close(ctx, err); closing != nil {
			err = errors.Join(err, closing)
		}
	}
	screen.Settle()
	if err == nil {
		screen.Line(show.Good, "\nEverything is as it should be.")
		return 0
	}
	screen.Line(show.Bad, "\nThis is not as it should be:")
	for _, line := range strings.Split(err.Error(), "\n") {
		screen.Line(show.Bad, "  ✗ %s", line)
	}
	if s.child != nil {
		screen.Line(show.Plain, "\nDrydock's log is in %s; it ends with:", s.child.log)
		for _, line := range s.child.lastLines() {
			screen.Line(show.Plain, "  %s", line)
		}
	}
	return 1
}

// open prepares what is needed to begin at all.
func (s *scene) open() (err error) {
	for text, into := range map[string]*resource.Quantity{s.to: &s.outcome.to, s.from: new(resource.Quantity)} {
		if *into, err = resource.ParseQuantity(text); err != nil {
			return fmt.Errorf("size %q: %w", text, err)
		}
	}
	if s.cluster, err = connect(); err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp("", "drydock-demo-"); err != nil {
		return fmt.Errorf("making a folder for logs: %w", err)
	}
	s.audience = newAudience(s.cluster, s.namespace, s.screen, s.clock)
	return nil
}

// perform plays act after act.
func (s *scene) perform(ctx context.Context) error {
	for _, act := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"Clearing what an earlier run may have left", func(ctx context.Context) error { return s.cluster.clear(ctx, s.namespace) }},
		{fmt.Sprintf("Starting %d replicas with volumes of %s, class %s, filling them, and calling their Service every 20 ms", replicas,
			s.from, s.class), s.raise},
		{"Starting drydock-standalone", s.engage},
		{"Taking checksums of every file, link, owner, mode and time", s.lookBefore},
		{fmt.Sprintf("Asking for %s: kubectl annotate statefulset %s %s=%s", s.to, setName, api.ResizeAnnotation, s.request()), s.resize},
		{"Taking the checksums again", s.lookAfter},
	} {
		s.screen.Settle()
		s.screen.Line(show.Bold, "\n%s", act.title)
		began := time.Now()
		if err := act.play(ctx); err != nil {
			return err
		}
		s.screen.Settle()
		s.screen.Line(show.Dim, "  %.1f s", time.Since(began).Seconds())
	}
	return s.judge()
}

func (s *scene) request() string { return templateName + "=" + s.to }

// raise makes the namespace and the set, and waits until every volume is filled.
func (s *scene) raise(ctx context.Context) error {
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

// expose makes what the set is reached by, and who calls it.
func (s *scene) expose(ctx context.Context) error {
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

// engage starts the functions, and the watch on what they do.
func (s *scene) engage(ctx context.Context) (err error) {
	if s.child, err = startChild(s.options, s.folder, s.audience.onEvent); err != nil {
		return err
	}
	if err := s.child.awaitWork(ctx); err != nil {
		return err
	}
	return s.audience.watch(ctx)
}

func (s *scene) lookBefore(ctx context.Context) (err error) {
	if s.outcome.before, err = s.cluster.measureAll(ctx, s.namespace); err != nil {
		return err
	}
	for i, m := range s.outcome.before {
		s.screen.Line(show.Plain, "  %s  %s  %d entries, %s", replica(i), short(m.checksum), m.entries, m.space)
	}
	s.found, err = s.cluster.search(ctx, s.namespace)
	return err
}

// resize asks for it and looks on until it has come to an end.
func (s *scene) resize(ctx context.Context) error {
	s.clock.begin()
	ctx, done := context.WithCancel(ctx)
	defer done()
	if err := s.audience.calls.read(ctx, s.cluster, s.namespace); err != nil {
		return err
	}
	defer func() { s.outcome.answered, s.outcome.failed = s.audience.calls.counts() }()
	patch := merge("metadata", map[string]any{"annotations": map[string]string{api.ResizeAnnotation: s.request()}})
	if _, err := s.cluster.AppsV1().StatefulSets(s.namespace).Patch(ctx, setName, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating StatefulSet %s: %w", setName, err)
	}
	select {
	case s.outcome.status = <-s.audience.finished:
		return nil
	case <-s.child.ended:
		return s.child.death()
	case <-time.After(s.timeout):
		return fmt.Errorf("the resize has not ended after %s: %s", s.timeout, s.lastStatus(ctx))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastStatus is what the set says of the operation now.
func (s *scene) lastStatus(ctx context.Context) string {
	set, err := s.cluster.AppsV1().StatefulSets(s.namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return "its status is " + set.Annotations[api.StatusAnnotation]
}

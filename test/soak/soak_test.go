//go:build cluster

package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
	"drydock.dev/test/seed"
	"drydock.dev/test/soak/acks"
)

// shortestRun is the shortest duration of a run that shows something.
const shortestRun = 4 * time.Minute

// longRun is the shortest duration of a run that must have done every action.
const longRun = 10 * time.Minute

// stepsAtOnce is the number of steps that run at once.
const stepsAtOnce = 5

// options are the environment of the test.
type options struct {
	seed uint64
	// duration is that of the whole test on an idle machine.
	duration time.Duration
}

// steps returns how long steps begin. The rest is for their end, and for the checks.
func (o options) steps() time.Duration { return o.duration - min(o.duration/6, time.Minute) }

// faults returns how long processes are killed. Afterwards drydock-standalone has one long life, whose memory is judged.
func (o options) faults() time.Duration { return o.steps() * 3 / 5 }

func readOptions(t *testing.T) options {
	t.Helper()
	o := options{seed: seed.Of(t), duration: time.Hour}
	if text := os.Getenv("FOR"); text != "" {
		var err error
		if o.duration, err = time.ParseDuration(text); err != nil {
			t.Fatalf("reading FOR: %v", err)
		}
	}
	if o.duration < shortestRun {
		t.Fatalf("FOR=%s is too short: in less than %s no operation ends while processes are killed", o.duration, shortestRun)
	}
	return o
}

// soak is one run.
type soak struct {
	*testing.T
	executor
	options  options
	folder   string // of the journal and the log
	sequence *Sequence
	journal  *Journal
	ledger   *acks.Ledger
	process  *process
	began    time.Time

	ctx   context.Context
	fail  context.CancelCauseFunc // ends all steps
	slots chan struct{}           // a value for each step that may begin
	steps sync.WaitGroup
	mu    sync.Mutex
	last  map[string]chan struct{} // closed when the latest step of the set has ended
	lost  []string
}

// TestNothingIsLostOverTime runs a random sequence of operations on fifty sets, and kills Drydock, the agents of the node, the controllers
// and the API server. Every acknowledged write must be on its volume, every operation must end, and nothing may remain of it.
// Invariants: I1, I4, I6, I8, I9.
func TestNothingIsLostOverTime(t *testing.T) {
	s := newSoak(t)
	t.Logf("SEED=%d FOR=%s; journal and log are in %s", s.options.seed, s.options.duration, s.folder)
	defer s.report()
	s.createSets()
	s.dispatch()
	s.steps.Wait()
	if len(s.lost) > 0 {
		s.describe()
		t.Fatalf("%d steps did not end as expected:\n%s", len(s.lost), strings.Join(s.lost, "\n"))
	}
	if missing := s.journal.Missing(); len(missing) > 0 && s.options.duration >= longRun {
		s.Errorf("no step did this in %s: %q", s.options.duration, missing)
	}
	s.expectFinalState()
	s.expectNoCrashes()
	s.expectEveryLine()
	s.expectNoRemains()
	s.expectSteadyProcess()
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	o := readOptions(t)
	folder := filepath.Join(kit.Root(t), "bin", "soak", fmt.Sprintf("%d-%s", o.seed, time.Now().Format("20060102-150405")))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(folder, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s := &soak{T: t, executor: executor{Stage: stage.New(t)}, options: o, folder: folder, sequence: NewSequence(o.seed),
		journal: NewJournal(file), ledger: acks.NewLedger(), slots: make(chan struct{}, stepsAtOnce), last: map[string]chan struct{}{}}
	s.ctx, s.fail = context.WithCancelCause(t.Context())
	s.SuperviseComponents(t)
	s.InstallRights(t) // also the Scalers, which the view watches
	if s.view, err = newView(t.Context(), s.Stage); err != nil {
		t.Fatal(err)
	}
	s.process = startProcess(t, s.Stage, folder, s.journal)
	s.began = time.Now()
	return s
}

// createSets creates all sets, without pods.
func (s *soak) createSets() {
	s.Helper()
	collector, err := acks.Collect(s.nodeAddress()+":0", s.ledger)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = collector.Close() })
	for _, set := range s.sequence.Sets() {
		made := set.statefulSet(collector.Address())
		if _, err := s.Kube.AppsV1().StatefulSets(s.Namespace).Create(s.ctx, made, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		if set.Kind != Scaled {
			continue
		}
		if err := s.CreateScaler(set.Name, set.scaler()); err != nil {
			s.Fatal(err)
		}
	}
}

// nodeAddress returns the address of this machine that pods can reach.
func (s *soak) nodeAddress() string {
	s.Helper()
	nodes, err := s.Kube.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		s.Fatalf("the soak needs the one node of make cluster, there are %d: %v", len(nodes.Items), err)
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	s.Fatal("the node has no address")
	return ""
}

// dispatch begins the steps of the sequence until the time is over or a step is lost.
func (s *soak) dispatch() {
	s.Helper()
	quiet, end := s.began.Add(s.options.faults()), s.began.Add(s.options.steps())
	for time.Now().Before(end) && s.ctx.Err() == nil {
		step := s.sequence.Next()
		if !step.Action.IsFault() {
			s.begin(step)
			continue
		}
		start := time.Now()
		if start.After(quiet) {
			s.journal.Note(step, start, start, Skipped, "")
			continue
		}
		s.inject(step)
		s.journal.Note(step, start, time.Now(), Done, "")
	}
}

// begin starts a step when the previous step of its set has ended and few other steps run.
func (s *soak) begin(step Step) {
	name := step.Before.Name
	if previous := s.last[name]; previous != nil {
		<-previous
	}
	s.slots <- struct{}{}
	if s.ctx.Err() != nil {
		return // a step was lost in the meantime
	}
	ended := make(chan struct{})
	s.last[name] = ended
	s.steps.Go(func() {
		defer func() { close(ended); <-s.slots }()
		start := time.Now()
		outcome, err := s.run(s.ctx, step)
		if err == nil {
			s.journal.Note(step, start, time.Now(), outcome, "")
			return
		}
		s.journal.Note(step, start, time.Now(), outcome, err.Error())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() == nil { // the others end because of this one
			s.lost = append(s.lost, fmt.Sprintf("%s: %v", step, err))
		}
		s.fail(fmt.Errorf("another step was lost"))
	})
}

// inject carries out a fault, and waits until the API server answers.
func (s *soak) inject(step Step) {
	s.Helper()
	select {
	case <-time.After(step.Delay):
	case <-s.ctx.Done():
		return
	}
	if step.Action == Crash {
		s.process.crash()
		return
	}
	s.RestartComponent(s.T, strings.TrimPrefix(string(step.Action), "restart "))
	s.Eventually("the API server is ready", func() string {
		if _, err := s.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(s.ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// report prints the counts, and the journal if the test has failed.
func (s *soak) report() {
	s.Logf("SEED=%d, %d acknowledged lines in the present files of %d members, %d lives of drydock-standalone, steps:\n%s", s.options.seed,
		s.ledger.Count(), len(s.ledger.Members()), s.process.lives(), s.journal.Summary())
	s.Logf("the longest life: %s", Describe(s.process.longestLife()))
	if err := os.WriteFile(filepath.Join(s.folder, "samples"), []byte(Table(s.process.longestLife())), 0o644); err != nil {
		s.Error(err)
	}
	if s.Failed() {
		s.Logf("the journal of SEED=%d:\n%s", s.options.seed, s.journal)
	}
}

// describe writes the objects of the namespace into the folder, as evidence for a lost step.
func (s *soak) describe() {
	kinds := "statefulsets,scalers,pods,jobs,persistentvolumeclaims,controllerrevisions,events"
	objects, problem := s.TryKubectl(s.T, "", "-n", s.Namespace, "get", kinds, "-o", "yaml")
	volumes, _ := s.TryKubectl(s.T, "", "get", "persistentvolumes", "-o", "yaml")
	if err := os.WriteFile(filepath.Join(s.folder, "objects.yaml"), []byte(objects+problem+"---\n"+volumes), 0o644); err != nil {
		s.Error(err)
	}
}

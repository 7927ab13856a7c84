//go:build cluster

package scale

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/apps/v1"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/proxy"
)

// countFromEnv returns the number in the variable, or the default.
func countFromEnv(b *testing.B, variable string, usual int) int {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		b.Fatalf("%s must be a number above 0, not %q", variable, text)
	}
	return n
}

// fleetNamespaces is the number of namespaces that share the sets of a fleet. The first one has half of them.
const fleetNamespaces = 20

// fleet has running sets of one member with one claim each.
type fleet struct {
	client kubernetes.Interface
	worlds []*kit.World
	sets   []placed
	live   listersv1.StatefulSetLister
}

// placed is a set in a world.
type placed struct {
	world int
	name  string
}

func all(placed) bool { return true }

func newFleet(b *testing.B, count int) *fleet {
	b.Helper()
	f := &fleet{}
	for range fleetNamespaces {
		f.worlds = append(f.worlds, kit.NewWorld(b))
	}
	f.client = f.worlds[0].Kube
	for i := range count {
		world := 0
		if i%2 == 1 {
			world = 1 + i/2%(fleetNamespaces-1)
		}
		f.sets = append(f.sets, placed{world, fmt.Sprintf("db-%d", i)})
	}
	inParallel(b, count, func(_ context.Context, n int) error {
		set := f.sets[n]
		f.worlds[set.world].CreateSet(kit.WorldSet(set.name, 1, "64Mi", "data"))
		return nil
	})
	factory := informers.NewSharedInformerFactory(f.client, 0)
	f.live = factory.Apps().V1().StatefulSets().Lister()
	factory.Start(b.Context().Done())
	factory.WaitForCacheSync(b.Context().Done())
	return f
}

// names returns the names of the namespaces.
func (f *fleet) names() []string {
	var names []string
	for _, w := range f.worlds {
		names = append(names, w.Namespace)
	}
	return names
}

// annotate writes the annotations on all sets.
func (f *fleet) annotate(b *testing.B, annotations map[string]string) {
	b.Helper()
	inParallel(b, len(f.sets), func(_ context.Context, n int) error {
		f.worlds[f.sets[n].world].Annotate(f.sets[n].name, annotations)
		return nil
	})
}

// await waits until all sets are done, and returns when each of them was.
func (f *fleet) await(b *testing.B, isDone func(*appsv1.StatefulSet) (bool, error)) map[placed]time.Time {
	b.Helper()
	ends := map[placed]time.Time{}
	for deadline := time.Now().Add(2 * time.Hour); len(ends) < len(f.sets); {
		for _, p := range f.sets {
			if _, ended := ends[p]; ended {
				continue
			}
			set, err := f.live.StatefulSets(f.worlds[p.world].Namespace).Get(p.name)
			if apierrors.IsNotFound(err) {
				continue // a resize creates its set again
			}
			if err != nil {
				b.Fatal(err)
			}
			done, err := isDone(set)
			if err != nil {
				b.Fatalf("StatefulSet %s/%s: %v", set.Namespace, set.Name, err)
			}
			if done {
				ends[p] = time.Now()
			}
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d sets are done", len(ends), len(f.sets))
		}
		<-time.After(time.Second)
	}
	return ends
}

// last returns when the last of the sets that count was done.
func last(ends map[placed]time.Time, counts func(placed) bool) time.Time {
	last := time.Time{}
	for set, at := range ends {
		if counts(set) && at.After(last) {
			last = at
		}
	}
	return last
}

// peakRate returns the highest number of requests within a second.
func peakRate(all []proxy.Request) int {
	perSecond, most := map[int64]int{}, 0
	for _, r := range all {
		perSecond[r.At.Unix()]++
		most = max(most, perSecond[r.At.Unix()])
	}
	return most
}

// startEngine runs drydock-standalone for the namespaces until the benchmark ends.
func startEngine(b *testing.B, kubeconfig string, namespaces []string, settings ...string) kit.Process {
	b.Helper()
	command := exec.Command(kit.Build(b, "drydock-standalone"), "--namespace", strings.Join(namespaces, ","), "--listen", "127.0.0.1:0",
		"--broker", "none", "--gateway", "none", "--status-page", "none", "--leader-elect=false", "--log-level", "warn")
	command.Env = append(append(os.Environ(), "KUBECONFIG="+kubeconfig, "DRYDOCK_IMAGE="+kit.Settings().Image, "DRYDOCK_ALLOW_TAGS=true",
		"DRYDOCK_IMPERSONATE=true"), settings...)
	log, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if b.Failed() {
			text, _ := os.ReadFile(log.Name())
			b.Logf("log of drydock-standalone:\n%s", text[max(0, len(text)-6000):])
		}
	})
	return kit.Process(command.Process.Pid)
}

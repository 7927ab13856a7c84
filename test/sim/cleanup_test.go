//go:build cluster

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/test/kit"
)

// cleaner is a world with a set of three replicas and two claims each. The set is scaled to one replica, or deleted.
// The node guards the claims: deleting a claim without a successful cleanup is a violation.
type cleaner struct {
	*kit.World
	t      *testing.T
	delete bool
	asked  bool // the set was scaled or deleted
}

func newCleaner(t *testing.T, remove bool) *cleaner {
	c := &cleaner{World: world(t), t: t, delete: remove}
	c.CreateSet(c.set())
	return c
}

func (c *cleaner) set() setType {
	set := c.SetWithCleanup("web", 3, "data", "logs")
	if c.delete {
		set.Annotations[api.CleanupOnDeleteAnnotation] = "true"
	}
	return set
}

// step plays the user after the ordinals of the set were recorded. It returns the reason to wait.
func (c *cleaner) step() string {
	set := c.Set("web")
	if set == nil {
		if c.delete && c.asked {
			return ""
		}
		return "the set is gone"
	}
	doc, err := api.LoadCleanup(set)
	if err != nil {
		c.t.Fatal(err)
	}
	switch {
	case doc == nil || doc.Set.UID != set.UID:
		return "there is no document"
	case !c.asked && (doc.Reason != api.CleanupReady || doc.Span.End != 3 || c.delete && len(set.Finalizers) == 0 ||
		api.LoadLedger(set) == nil):
		return "the ordinals are not accounted for"
	case !c.asked:
		c.asked = true
		if c.delete {
			background := metav1.DeletePropagationBackground
			_ = c.Kube.AppsV1().StatefulSets(c.Namespace).Delete(context.Background(), "web",
				metav1.DeleteOptions{PropagationPolicy: &background})
		} else {
			c.TryScale("web", 1)
		}
		return "it has just been asked for"
	case c.givesUp(set):
		return "the user has just given the missing pods up"
	case c.delete || doc.Phase != api.Succeeded || doc.Reason == api.CleanupReady && *set.Spec.Replicas == 1:
		return fmt.Sprintf("phase %s: %s: %s %+v", doc.Phase, doc.Reason, doc.Message, doc.Ordinals)
	}
	return ""
}

// givesUp plays a user who reads the Warning PodsExpected.
func (c *cleaner) givesUp(set *appsv1.StatefulSet) bool {
	ledger := api.LoadLedger(set)
	if ledger == nil || set.DeletionTimestamp != nil {
		return false
	}
	missing, some := members.Missing(ledger, set)
	if some {
		c.Annotate("web", map[string]string{api.CleanupFromAnnotation: members.OrderFrom(set, missing.Start)})
	}
	return some
}

// run ticks until the cleanup has ended. It replaces functions that have died.
func (c *cleaner) run(saboteur *kit.Saboteur) *kit.Drive {
	drive, fresh := c.Drive(saboteur), c.Drive(nil)
	c.Eventually("the cleanup ends", func() string {
		if saboteur.Dead() {
			drive = fresh
		}
		_ = drive.Tick(context.Background()) // a dead process returns an error for every call
		return c.step()
	})
	return fresh
}

// judge checks that only the unneeded claims are gone, and that a remaining set is complete.
func (c *cleaner) judge(drive *kit.Drive, claims ...string) {
	c.t.Helper()
	c.Eventually("nothing is left behind (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(c.Leftovers(), ", ")
	})
	c.Eventually("the claims are those of the replicas", func() string {
		_ = drive.Tick(context.Background())
		list, err := c.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, claim := range list.Items {
			if !c.reported(claim.Name) {
				names = append(names, claim.Name)
			}
		}
		if !slices.Equal(names, claims) {
			return fmt.Sprint(names)
		}
		return ""
	})
	if set := c.Set("web"); set != nil {
		c.Eventually("the set is ready", func() string {
			if s := c.Set("web"); s.Status.ReadyReplicas != *s.Spec.Replicas || s.Status.Replicas != *s.Spec.Replicas {
				return "it is not"
			}
			return ""
		})
	}
	for _, problem := range c.ClaimProblems(claims...) {
		c.t.Error(problem)
	}
}

// reported reports whether the set's record names the claim as never used. The member of such a claim was removed
// before it had a pod.
func (c *cleaner) reported(claim string) bool {
	doc := c.Cleanup("web")
	return doc != nil && slices.ContainsFunc(doc.Ordinals, func(o api.OrdinalStatus) bool {
		return o.Reason == api.ClaimUnbound && strings.HasSuffix(claim, fmt.Sprintf("-web-%d", o.Ordinal)) &&
			c.Claim(claim).Status.Phase == corev1.ClaimPending
	})
}

// claimsOf returns the names of the claims of the first ordinals.
func claimsOf(replicas int) []string {
	var names []string
	for _, template := range []string{"data", "logs"} {
		for n := range replicas {
			names = append(names, fmt.Sprintf("%s-web-%d", template, n))
		}
	}
	return names
}

func countCleanup(t *testing.T, remove bool) int {
	return counted(t, fmt.Sprintf("cleanup, on delete %t", remove), func() int {
		c, saboteur := newCleaner(t, remove), &kit.Saboteur{}
		c.judge(c.run(saboteur), claimsOf(map[bool]int{false: 1}[remove])...)
		writes := saboteur.Writes()
		t.Logf("%d writes:\n%s", len(writes), strings.Join(writes, "\n"))
		for _, idle := range saboteur.Idle() {
			t.Errorf("I7: %s changed nothing", idle)
		}
		return len(writes)
	})
}

// TestCleanupSurvivesEverySabotage: three replicas become one, with every failure at write k.
// Invariants: I1, I2, I6, I9.
func TestCleanupSurvivesEverySabotage(t *testing.T) { everyCleanup(t, false) }

// TestCleanupOnDeleteSurvivesEverySabotage: a set is deleted, and its ordinals are cleaned up first.
// Invariants: I1.
func TestCleanupOnDeleteSurvivesEverySabotage(t *testing.T) { everyCleanup(t, true) }

func everyCleanup(t *testing.T, remove bool) {
	t.Parallel()
	n := countCleanup(t, remove)
	for _, what := range kit.Sabotages {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("%s write %d", what, k), func(t *testing.T) {
				c, saboteur := newCleaner(t, remove), &kit.Saboteur{At: k, Failure: what}
				c.judge(c.run(saboteur), claimsOf(map[bool]int{false: 1}[remove])...)
			})
		}
	}
}

// inTheWay are actions of a user at a write of a cleanup, with the number of replicas at the end.
var inTheWay = map[string]struct {
	act      interference
	replicas int
}{
	"a user scales the set up": {func(w *kit.World) { w.TryScale("web", 3) }, 3},
	"a user scales the set up and down again": {func(w *kit.World) {
		w.TryScale("web", 3)
		w.TryScale("web", 1)
	}, 1},
	"a user deletes the set and applies it again": {func(w *kit.World) {
		applyAgain(w, w.SetWithCleanup("web", 3, "data", "logs"), metav1.DeletePropagationBackground)
	}, 3},
	"a user removes every pod": {func(w *kit.World) {
		_ = w.Kube.CoreV1().Pods(w.Namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	}, 1},
	"a user removes the document": {func(w *kit.World) {
		w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.CleanupAnnotation))
	}, 1},
}

// Invariants: I1, I3.
func TestCleanupSurvivesOthers(t *testing.T) {
	t.Parallel()
	n := countCleanup(t, false)
	for name, other := range inTheWay {
		for _, k := range schedules(t, n) {
			schedule(t, fmt.Sprintf("%s after write %d", name, k), func(t *testing.T) {
				c, saboteur, done := newCleaner(t, false), &kit.Saboteur{}, false
				act := func() {
					done, c.asked = true, true
					other.act(c.World)
				}
				saboteur.OnWrite = func(string) {
					if !done && len(saboteur.Writes()) >= k {
						act()
					}
				}
				drive := c.Drive(saboteur)
				c.Eventually("the set is as it is wanted", func() string {
					_ = drive.Tick(context.Background())
					if !done && c.step() == "" { // this run has one write less
						act()
					}
					if !done || c.Cleanup("web") == nil || c.Cleanup("web").Phase != api.Succeeded {
						return c.step()
					}
					if replicas := *c.Set("web").Spec.Replicas; int(replicas) != other.replicas {
						c.TryScale("web", other.replicas) // it was never requested before the disturbance
						return fmt.Sprintf("it has %d replicas", replicas)
					}
					return ""
				})
				c.judge(c.Drive(nil), claimsOf(other.replicas)...)
			})
		}
	}
}

// TestCleanupWithRepeatedAndReorderedEvents delivers every event twice, in random order.
// Invariants: I7.
func TestCleanupWithRepeatedAndReorderedEvents(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 60) {
		schedule(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			c := newCleaner(t, false)
			drive := c.Drive(nil)
			drive.Shuffle = seed
			c.Eventually("the cleanup ends", func() string {
				_ = drive.Tick(context.Background())
				return c.step()
			})
			c.judge(c.Drive(nil), claimsOf(1)...)
		})
	}
}

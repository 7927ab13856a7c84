package swarm

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"drydock.dev/test/kit/apiserver"
	"drydock.dev/test/seed"
	"drydock.dev/test/swarm/policies"
)

var (
	update = flag.Bool("update", false, "write how the stories end")
	runs   = flag.Int("runs", 25, "how many random runs to play")
	faults = flag.Bool("faults", false, "more slow processes, lost answers and stale operators in random runs")
	found  = flag.String("found", "", "folder for the stories that random runs find")
)

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // a run needs little memory, and is 30 % faster so
	os.Exit(m.Run())
}

// The policies are compiled once, which takes a second.
var compiled = sync.OnceValues(func() (*policies.Policies, error) {
	return policies.Load(filepath.Join("..", "..", "config", "policy"), mayDo)
})

// mayDo has the rights of the users and tools in a world. Of them, only the administrator may write records.
func mayDo(user, group, resource, _ string) bool {
	return user == admin.User || group != "drydock.dev" || resource != "records"
}

func loadPolicies(t *testing.T) apiserver.Admission {
	t.Helper()
	p, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// maxLines keeps a story short enough to read at a glance.
const maxLines = 18

// TestStories plays the stories that were kept. A story with a line "ends with" is a fault that is not mended yet, and must still be found.
// With -v, it prints what happens in each.
func TestStories(t *testing.T) {
	for name, s := range stories(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(t, loadPolicies(t), s)
			t.Log("\n" + strings.Join(r.tale, "\n"))
			if scene := s.missing(r.tale); scene != "" || len(s.Shows) == 0 {
				t.Errorf("it does not show %q, so it tests nothing. Change it until it does", scene)
			}
			if ends := kindOfProblem(r.problem); *update {
				s.Ends = ends
				if err := os.WriteFile(fileOf(name), []byte(s.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if ends != s.Ends {
				t.Errorf("it ends with %q. If that is right, run the test with -update", r.problem)
			}
		})
	}
}

func fileOf(story string) string { return filepath.Join("testdata", "stories", story+".story") }

func stories(t *testing.T) map[string]Story {
	t.Helper()
	files, err := filepath.Glob(fileOf("*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no stories: %v", err)
	}
	all := map[string]Story{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseStory(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if lines := strings.Count(string(text), "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, at most %d can be read at a glance", file, lines, maxLines)
		}
		if again := s.String(); again != string(text) && !*update {
			t.Errorf("%s is not in the form that -update writes:\n%s", file, again)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".story")] = s
	}
	return all
}

// TestStoriesNeedThePolicies: without the policies the claims go, so the policies prevent a loss that the oracles see.
func TestStoriesNeedThePolicies(t *testing.T) {
	all := stories(t)
	for _, name := range []string{"delete-while-set-stops", "delete-while-operator-stops-set"} {
		if r := play(t, nil, all[name]); !strings.Contains(r.problem, "whose member was always wanted") {
			t.Errorf("%s ends with %q:\n%s", name, r.problem, strings.Join(r.tale, "\n"))
		}
	}
}

// TestStoryKeepsItsForm: what String writes, ParseStory reads.
func TestStoryKeepsItsForm(t *testing.T) {
	for n := range uint64(50) {
		s := random(n, n%2 == 0)
		s.Comment, s.Shows, s.Ends = "a comment", []string{"a scene", "another one"}, "an end"
		again, err := ParseStory(s.String())
		if err != nil || again.String() != s.String() || !slices.Equal(again.Acts, s.Acts) || !slices.Equal(again.Shows, s.Shows) ||
			again.Shape != s.Shape {
			t.Fatalf("%v:\n%s\nis read as\n%s", err, s, again)
		}
	}
	for _, text := range []string{"paused web", "world sets=1 owner=0 big", "world sets=1 owner=0\ndance", "world sets=1 owner=0\nslow 1 2 3",
		"world sets=1 owner=0\nslow one"} {
		if s, err := ParseStory(text); err == nil {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

// TestRandomRuns plays random runs. A run may end like a story that is not mended yet.
func TestRandomRuns(t *testing.T) {
	known := map[string]bool{"": true}
	for _, s := range stories(t) {
		known[s.Ends] = true
	}
	covered, ends, acts := map[string]int{}, map[string]int{}, 0
	slowest, slowestSeed := time.Duration(0), uint64(0)
	for n := range seed.Next(t, *runs) {
		s := random(n, *faults)
		begin := time.Now()
		r := play(t, loadPolicies(t), s)
		if took := time.Since(begin); took > slowest {
			slowest, slowestSeed = took, n
		}
		for state, times := range r.covered {
			covered[state] += times
		}
		acts += len(s.Acts)
		kind := kindOfProblem(r.problem)
		ends[kind]++
		switch {
		case !known[kind]:
			known[kind] = true
			t.Errorf("%s\n%s", r.problem, shorten(t, s, r.problem, n))
		case kind != "" && *found != "" && ends[kind] <= 10: // other faults may end alike
			shorten(t, s, r.problem, n)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(ends)) {
		t.Logf("%d runs end with %q", ends[kind], kind)
	}
	t.Logf("the slowest run was SEED=%d with %s", slowestSeed, slowest.Round(time.Second))
	t.Logf("%d acts in %d runs wrote %d states of records:\n%s", acts, *runs, len(covered),
		strings.Join(slices.Sorted(maps.Keys(covered)), "\n"))
	if len(covered) < 25 {
		t.Error("these are too few: the world does not reach the functions any more")
	}
}

// shorten returns the story of a run, as short as possible, and writes it to the folder for found stories.
func shorten(t *testing.T, s Story, problem string, seed uint64) Story {
	t.Helper()
	t.Logf("the run with SEED=%d ends with %q", seed, problem) // at once, because to shrink it may take long
	s = shrink(t, loadPolicies(t), s, problem, 200)
	r := play(t, loadPolicies(t), s)
	s.Comment, s.Ends = "SEED="+strconv.FormatUint(seed, 10), kindOfProblem(r.problem)
	if file := filepath.Join(*found, strconv.FormatUint(seed, 10)); *found != "" {
		text := s.String() + "\n" + strings.Join(r.tale, "\n")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	return s
}

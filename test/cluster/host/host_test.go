package host

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProcessIsIdentifiedByItsEnvironment(t *testing.T) {
	tests := map[string]struct {
		environment string
		component   string
		ours        bool
	}{
		"started by this tool":            {"A=b\x00DRYDOCK_CLUSTER_DIR=/s/node\x00DRYDOCK_CLUSTER_COMPONENT=etcd\x00", "etcd", true},
		"another cluster's":               {"DRYDOCK_CLUSTER_DIR=/s/control-plane\x00DRYDOCK_CLUSTER_COMPONENT=etcd\x00", "etcd", false},
		"a subfolder's":                   {"DRYDOCK_CLUSTER_DIR=/s/node/x\x00DRYDOCK_CLUSTER_COMPONENT=etcd\x00", "etcd", false},
		"only one of the two variables":   {"DRYDOCK_CLUSTER_DIR=/s/node\x00", "", false},
		"neither variable":                {"HOME=/root\x00", "", false},
		"a zombie without an environment": {"", "", false},
		"a value that looks like a name":  {"A=DRYDOCK_CLUSTER_DIR=/s/node\x00", "", false},
	}
	for name, test := range tests {
		component, ours := componentOf([]byte(test.environment), "/s/node")
		if component != test.component || ours != test.ours {
			t.Errorf("%s: got %q, %v", name, component, ours)
		}
	}
}

func TestKillAllEndsOnlyProcessesOfTheCluster(t *testing.T) {
	sleep, err := filepath.EvalSymlinks("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	ours, others := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, others} {
		if err := Start(dir, "sleep", sleep, []string{"60"}, nil, filepath.Join(dir, "logs", "sleep.log")); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = KillAll(context.Background(), others) })
	for _, dir := range []string{ours, others} {
		waitRunning(t, dir, sleep)
	}
	if err := KillAll(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{ours: false, others: true} {
		processes, err := Processes(dir)
		if err != nil {
			t.Fatal(err)
		}
		if Running(processes, "sleep", sleep) != want {
			t.Errorf("processes of %s: %v, want running = %v", dir, processes, want)
		}
	}
}

// waitRunning waits until the process has completed its exec.
func waitRunning(t *testing.T, dir, binary string) {
	t.Helper()
	for range 100 {
		processes, err := Processes(dir)
		if err != nil {
			t.Fatal(err)
		}
		if Running(processes, "sleep", binary) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the process did not start")
}

func TestKillKeepsProcessesOfCurrentBinary(t *testing.T) {
	sleep, err := filepath.EvalSymlinks("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Start(dir, "sleep", sleep, []string{"60"}, nil, filepath.Join(dir, "sleep.log")); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, dir, sleep)
	if err := Kill(t.Context(), dir, "sleep", sleep); err != nil {
		t.Fatal(err)
	}
	waitRunning(t, dir, sleep)
	if err := Kill(t.Context(), dir, "sleep", "/newer"); err != nil {
		t.Fatal(err)
	}
	if processes, err := Processes(dir); err != nil || len(processes) != 0 {
		t.Errorf("left: %v, %v", processes, err)
	}
}

func TestMountsBelowFolderAreListed(t *testing.T) {
	mountinfo := strings.Join([]string{
		"22 1 254:0 / / rw - ext4 /dev/vda rw",
		"90 22 7:0 / /s/node/volumes/a/data rw - ext4 /dev/loop0 rw",
		`91 22 7:1 / /s/node/with\040blank rw - xfs /dev/loop1 rw`,
		"92 22 7:2 / /s/node2/data rw - xfs /dev/loop2 rw",
		"93 22 7:3 / /s/node rw - xfs /dev/loop3 rw",
		"",
	}, "\n")
	want := []string{"/s/node/volumes/a/data", "/s/node/with blank"}
	if got := mountsBelow(mountinfo, "/s/node"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyMissingPackagesAreInstalled(t *testing.T) {
	if got := missingPackages(func(string) bool { return true }); len(got) != 0 {
		t.Errorf("with all files present: %v", got)
	}
	got := missingPackages(func(file string) bool { return file != "/usr/sbin/nft" })
	if !slices.Equal(got, []string{"nftables"}) {
		t.Errorf("without nft: %v", got)
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TakeLock(path, func() { t.Error("the free lock was reported as held") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, taken := make(chan struct{}), make(chan error)
	go func() {
		second, err := TakeLock(path, func() { close(waiting) })
		second.Release()
		taken <- err
	}()
	<-waiting
	first.Release()
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
}

func TestCgroupTreeIsRemovedFromTheBottom(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "pods", "pod1", "container"), 0o755); err != nil {
		t.Fatal(err)
	}
	if left, err := removeTree(top); left != 0 || err != nil {
		t.Errorf("left %d, %v", left, err)
	}
	if left, err := removeTree(top); left != 0 || err != nil {
		t.Errorf("second call, without a tree: left %d, %v", left, err)
	}
}

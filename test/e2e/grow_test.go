//go:build cluster

package e2e

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// hungry is a database that writes and flushes 0.25 MiB per second until its volume has grown, and then 2 MiB per second until it is 90 %
// full. A failure is written to the file failed.
const hungry = `cd /data && touch filled && trap exit TERM && i=0 && rate=1
while :; do
  [ $(df -Pm /data | awk 'NR==2{print $2}') -le 80 ] || rate=8
  if [ -e failed ] || { [ $rate = 8 ] && [ $(df -Pm /data | awk 'NR==2{print int($5)}') -ge 90 ]; }; then
    touch done; sleep 1 & wait; continue
  fi
  dd if=/dev/urandom of=rows.$i bs=256k count=$rate conv=fsync 2>>errors || cp errors failed; i=$((i+1)); sleep 1 & wait
done`

// growing are the settings for a quick growth. The local kubelet has a self-signed certificate.
var growing = []string{"DRYDOCK_GROW_PERIOD=1m", "DRYDOCK_GROW_KUBELET_INSECURE=true"}

// untilFull waits up to a minute for the end of hungry, and prints files failed and done as far as they are there.
const untilFull = `cd /data && i=0; while [ ! -e failed ] && [ ! -e done ] && [ $i -lt 60 ]; do i=$((i+1)); sleep 1; done
ls failed done 2>/dev/null; cat failed 2>/dev/null; df -Pm /data | tail -1`

// TestGrowingDatabaseNeverRunsOutOfSpace: it writes more than its first volume can hold, and no write fails. The
// kubelet reports the usage of the volumes. No pod stops, and all claims have the same size.
// Invariants: I1.
func TestGrowingDatabaseNeverRunsOutOfSpace(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.GrowingClass)
	stage.RunScript(&set.Spec.Template.Spec.Containers[0], "/data", hungry)
	set.Annotations[api.GrowAnnotation] = "data=below:50%,by:50%,max:96Mi"
	s.CreateSet(set)
	s.AwaitReady(t)
	pods := podsOf(t, s)
	s.StartDrydock(t, growing, "--tick", "2s")
	s.Patience = 9 * time.Minute
	s.Eventually("the volume of web-0 is 90 % full", func() string {
		end := s.Exec(t, "web-0", untilFull)
		if strings.Contains(end, "failed") {
			t.Fatalf("a write has failed: %s", end)
		}
		if !strings.Contains(end, "done") {
			return end
		}
		return ""
	})
	t.Log(s.Exec(t, "web-0", "df -Pm /data | tail -1; ls /data/rows.* | wc -l"))
	if after := podsOf(t, s); after != pods {
		t.Errorf("the pods are %s, were %s", after, pods)
	}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		if has := s.Claim(name).Status.Capacity.Storage().String(); has != "96Mi" {
			t.Errorf("claim %s has %s", name, has)
		}
	}
	if is := s.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); is != "96Mi" {
		t.Errorf("the template asks for %s", is)
	}
	s.Eventually("the limit is told", func() string {
		growth, err := api.LoadGrowth(s.Set("web"))
		if err != nil || growth == nil || len(growth.Warnings) != 1 || growth.Warnings[0].Reason != api.GrowthLimit {
			return "it is not"
		}
		return ""
	})
	s.ExpectNothingLeft(t)
}

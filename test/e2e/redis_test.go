//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// redis is a primary with two replicas, and three Sentinels that know the primary. All have stable names.
type redis struct {
	service
	client *redisClient
}

func newRedis(t *testing.T) redis {
	t.Helper()
	s := redis{service: service{stage.New(t)}}
	s.Patience = 5 * time.Minute
	set, sentinels := redisSet(), sentinelSet()
	s.namePods(t, set)
	s.namePods(t, sentinels)
	s.CreateSet(set)
	s.awaitReady()
	s.budget(t, set, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(1))})
	s.CreateSet(sentinels)
	s.Eventually("the Sentinels know all members and each other", func() string {
		for i := range 3 {
			known := s.Exec(t, fmt.Sprintf("sentinel-%d", i), "redis-cli -p 26379 info sentinel")
			if !strings.Contains(known, "status=ok,address=web-2.web:6379,slaves=2,sentinels=3") {
				return known
			}
		}
		return ""
	})
	s.client = s.startClient(t)
	t.Cleanup(func() { s.showLogs(t) })
	return s
}

// showLogs shows the logs of the members and of a Sentinel after a failure.
func (s redis) showLogs(t *testing.T) {
	for _, pod := range []string{"sentinel-0", "web-0", "web-1", "web-2"} {
		if t.Failed() {
			log, _ := s.TryKubectl(t, "", "-n", s.Namespace, "logs", "--tail=40", pod)
			t.Logf("log of %s:\n%s", pod, log)
		}
	}
}

// redisSet returns a set whose first primary has the highest ordinal, which a rolling resize would otherwise move
// first.
func redisSet() *appsv1.StatefulSet {
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](served)
	set.Annotations[api.StrategyAnnotation] = string(api.StrategyRolling)
	set.Annotations[api.PrimaryAnnotation] = "role=primary"
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](60)
	pod.Containers[0] = corev1.Container{
		Name: "redis", Image: redisImage, Command: []string{"sh", "-c", redisStart},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c",
			redisStop}}}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 2, TimeoutSeconds: 5, // each starts processes
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", redisReady}}}},
	}
	return set
}

// sentinelSet returns a set without claims that is not managed.
func sentinelSet() *appsv1.StatefulSet {
	set := kit.WorldSet("sentinel", 3, "")
	delete(set.Labels, api.ManagedLabel)
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	set.Spec.Template.Spec.Containers[0] = corev1.Container{Name: "sentinel", Image: redisImage,
		Command: []string{"sh", "-c", sentinelStart}}
	return set
}

// leader returns the pod that Sentinel names.
func (s redis) leader(context.Context) string { return s.client.primary() }

// expectFound checks that each member found all of its puts on its new volume before the primary sent any.
func (s redis) expectFound(t *testing.T) {
	t.Helper()
	for i := range served {
		var left, found int
		text := s.Exec(t, fmt.Sprintf("web-%d", i), "cat /data/left /data/found")
		if _, err := fmt.Sscan(text, &left, &found); err != nil {
			t.Errorf("member %d notes %q: %v", i, text, err)
		}
		t.Logf("member %d stopped with %d keys, and started with %d", i, left, found)
		if left == 0 || found < left {
			t.Errorf("member %d stopped with %d keys, and started with %d", i, left, found)
		}
	}
}

// expectEveryPut waits until each member has every acknowledged put. A replica may lag behind the primary for a moment,
// but lost data never appears.
func (s redis) expectEveryPut(t *testing.T) {
	t.Helper()
	acked := s.client.puts.acknowledged(t)
	for i := range served {
		pod := fmt.Sprintf("web-%d", i)
		s.Eventually(pod+" has every put", func() string {
			lines := strings.Split(s.Exec(t, pod, "redis-cli hgetall puts"), "\n")
			values := map[string]string{}
			for pair := range slices.Chunk(lines, 2) {
				values[pair[0]] = pair[len(pair)-1]
			}
			for key, value := range acked {
				if values[key] != value {
					return fmt.Sprintf("it has %q for %s, and %q was acknowledged", values[key], key, value)
				}
			}
			return ""
		})
	}
}

// TestRedisLosesNoAcknowledgedPut: a writer puts keys during a rolling resize to another class. A put is acknowledged
// when a replica has it, too. Afterwards each member has every such put. Two members were ready at all times. The
// primary, which has the highest ordinal, was moved last, and failed over before its end.
func TestRedisLosesNoAcknowledgedPut(t *testing.T) {
	t.Parallel()
	s := newRedis(t)
	labelled := s.labelLeader(t, s.leader)
	s.awaitAcknowledged(s.client.puts, 50)
	drydock(t, s.Stage)
	status := s.moveToOtherClass(t, "160Mi")
	s.awaitAcknowledged(s.client.puts, s.client.puts.count()+50) // for the present primary
	s.expectLeaderLast(t, status, labelled)
	s.expectFound(t)
	s.expectEveryPut(t)
}

const (
	redisImage = "dev.local/redis:dev" // built by make redis-image

	// redisNames is the common beginning of the set's scripts. Only one Sentinel is asked and told to fail over,
	// because two at once could promote one replica each.
	redisNames = `me=$HOSTNAME.web
sentinel() { timeout 5 redis-cli -h sentinel-0.sentinel -p 26379 sentinel "$@" 2>/dev/null; }
primary() { sentinel get-master-addr-by-name main | head -n 1; }
`
	// redisStart notes the number of puts on the volume, then starts in the role that Sentinel gives the member. On new
	// volumes web-2 is the primary. A primary accepts no write without a replica. A truncated append-only file is an
	// error.
	redisStart = redisNames + `set -- redis-server --dir /data --appendonly yes --appendfsync always --aof-load-truncated no --save ''
at=web-2.web
if [ -e /data/appendonlydir ]; then
  "$@" --port 0 --unixsocket /tmp/socket &
  until n=$(redis-cli -s /tmp/socket hlen puts) && [ "$n" -ge 0 ]; do sleep 0.1; done 2>/dev/null
  echo "$n" > /data/found; redis-cli -s /tmp/socket shutdown; wait
  until at=$(primary) && [ -n "$at" ]; do sleep 0.5; done
fi
[ "$at" = "$me" ] || set -- "$@" --replicaof "$at" 6379
exec "$@" --replica-announce-ip "$me" --min-replicas-to-write 1 --repl-diskless-sync-delay 0 --protected-mode no`

	// redisReady succeeds for a primary, and for a connected replica with all data of its primary.
	redisReady = `redis-cli role | grep -qx -e master -e connected`

	// redisStop fails over if the member is the primary, then notes its number of puts. A primary waits until both
	// replicas have answered Sentinel within two seconds, because Sentinel cannot tell an unreachable replica the new
	// primary. Then it accepts no more writes, waits until both replicas have its data, lets Sentinel promote one, and
	// waits until the other one follows that. With further writes, a write that only the other replica has acknowledged
	// would be lost.
	redisStop = redisNames + `if [ "$(redis-cli role | head -n 1)" = master ]; then
  reached() { sentinel replicas main | grep -A 1 -x last-ok-ping-reply | grep -cx '1\?[0-9]\{1,3\}'; } # milliseconds ago
  until [ "$(reached)" = 2 ]; do sleep 0.2; done
  redis-cli config set min-replicas-to-write 3
  level() {
    info=$(redis-cli info replication | tr -d '\r')
    [ "$(echo "$info" | grep -c "state=online,offset=$(echo "$info" | sed -n 's/^master_repl_offset://p'),")" = 2 ]
  }
  until level; do sleep 0.1; done
  until at=$(primary) && [ -n "$at" ] && [ "$at" != "$me" ]; do sentinel failover main; sleep 0.5; done
  until redis-cli -h "$at" info replication | grep -q '^connected_slaves:[1-9]'; do sleep 0.1; done
fi
redis-cli hlen puts > /data/left`

	// sentinelStart marks a member as lost after ten seconds, so that a busy machine loses none.
	sentinelStart = `cat > /tmp/sentinel.conf <<END
port 26379
protected-mode no
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $HOSTNAME.sentinel
sentinel monitor main web-2.web 6379 2
sentinel down-after-milliseconds main 10000
sentinel failover-timeout main 20000
sentinel parallel-syncs main 2
END
exec redis-server /tmp/sentinel.conf --sentinel`

	// redisWriting prints the primary's pod and the result of each put. A put is acknowledged when a replica has it,
	// too.
	redisWriting = redisNames + `(while :; do at=$(primary); [ "$at" = "$was" ] || echo "primary $at"; was=$at; sleep 0.1; done) &
i=0; at=$(primary)
while :; do
  i=$((i+1)); value=$i-$(date +%s)
  said=$(printf 'HSET puts key-%s %s\nWAIT 1 2000\n' $i $value | timeout 5 redis-cli -h "$at" 2>&1 | tr '\n' ' ')
  case $said in
  "1 1 "|"1 2 ") echo "acked key-$i $value";;
  *) echo "failed key-$i $at: $said"; at=$(primary);;
  esac
  sleep 0.02
done`
)

// redisClient is a pod that writes, with its output.
type redisClient struct {
	puts *puts
	mu   sync.Mutex
	now  string // the primary's pod
}

// startClient writes until the test ends.
func (s redis) startClient(t *testing.T) *redisClient {
	t.Helper()
	s.StartImage(t, redisImage, "client", redisWriting)
	c, known := &redisClient{puts: newPuts()}, 0
	s.untilEnd(t, func(ctx context.Context) {
		lines := 0
		s.readLog(ctx, "client", func(line string) {
			if lines++; lines > known { // after a lost connection the log is read from its beginning
				known = lines
				c.read(line)
			}
		})
	})
	return c
}

// read parses a line of the client.
func (c *redisClient) read(line string) {
	words := strings.Fields(line)
	switch {
	case len(words) == 3 && words[0] == "acked":
		c.puts.note(words[1], words[2], true)
	case len(words) > 1 && words[0] == "failed":
		c.puts.note(words[1], "", false)
	case len(words) == 2 && words[0] == "primary":
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now, _, _ = strings.Cut(words[1], ".")
	}
}

func (c *redisClient) primary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

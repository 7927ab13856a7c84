//go:build cluster

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
)

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

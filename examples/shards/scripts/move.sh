#!/bin/sh
# Runs in the cleanup pod of an ordinal, with that ordinal's claim on /data. Moves the shards of the claim to shards-0.
#
# It can be killed at any point, and starts again from the beginning. It removes a shard only after shards-0 has confirmed that the
# shard is complete and on disk. Sending a shard again changes nothing. It succeeds only if no shard is left, because success
# deletes the claim.
set -eu
# The first process of a container ignores signals without a trap.
trap 'exit 1' TERM

fail() {
  echo "$*"
  exit 1
}

# ask sends its standard input to shards-0 and prints the answer.
ask() {
  timeout 60 nc shards-0.shards 7000 || true
}

# The cleanup pod has the name of the removed replica.
ordinal=${HOSTNAME##*-}
[ "$ordinal" != 0 ] || fail "no replica is left for the shards of shards-0, so its claim is kept"

mkdir -p /data/shards
cd /data/shards
echo "$HOSTNAME has $(ls | wc -l) shards to move"
for shard in *; do
  [ -e "$shard" ] || break # without files, the pattern expands to itself
  answer=$({ echo "store $shard $(stat -c %s "$shard")"; cat "$shard"; } | ask)
  [ "$answer" = "stored $shard" ] || fail "shard $shard was not stored: ${answer:-no answer from shards-0}"
  rm "$shard"
  echo "moved $shard"
done
[ -z "$(ls)" ] || fail "these shards are left: $(ls)"

# The id stays the same if the script runs again, so the log has one line for this claim.
if [ ! -s /data/id ]; then
  cat /proc/sys/kernel/random/uuid > /data/id.new
  sync /data/id.new
  mv /data/id.new /data/id
  sync /data
fi
answer=$(echo "finished $ordinal $(cat /data/id)" | ask)
[ "$answer" = "noted $ordinal" ] || fail "shards-0 did not log the end of the move: ${answer:-no answer from shards-0}"
echo "every shard of $HOSTNAME is on shards-0"
# The success message of the template.
echo moved > /dev/termination-log

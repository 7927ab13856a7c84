#!/bin/sh
# Runs in the cleanup pod of an ordinal, with that ordinal's claim on /data: moves its shards to shards-0.
#
# It may be killed at any point, and is run again from the start. A shard is removed here only after shards-0 has said that it
# is whole and on disk, and to send a shard again changes nothing. It ends well only when no shard is left, because then the
# claim is deleted.
set -eu
# The first process of a container ignores signals that it has no trap for.
trap 'exit 1' TERM

fail() {
  echo "$*"
  exit 1
}

# ask sends what it reads to shards-0 and prints the answer.
ask() {
  timeout 60 nc shards-0.shards 7000 || true
}

# A cleanup pod has the name of the replica.
ordinal=${HOSTNAME##*-}
[ "$ordinal" != 0 ] || fail "shards-0 has nobody to give its shards to: its claim stays"

mkdir -p /data/shards
cd /data/shards
echo "$HOSTNAME has $(ls | wc -l) shards to move"
for shard in *; do
  [ -e "$shard" ] || break # without any file the pattern stands for itself
  answer=$({ echo "store $shard $(stat -c %s "$shard")"; cat "$shard"; } | ask)
  [ "$answer" = "stored $shard" ] || fail "shard $shard has not arrived: ${answer:-no answer from shards-0}"
  rm "$shard"
  echo "moved $shard"
done
[ -z "$(ls)" ] || fail "there are shards left: $(ls)"

# The id stays the same when the script is run again, so that the log has one line for this claim.
if [ ! -s /data/id ]; then
  cat /proc/sys/kernel/random/uuid > /data/id.new
  sync /data/id.new
  mv /data/id.new /data/id
  sync /data
fi
answer=$(echo "finished $ordinal $(cat /data/id)" | ask)
[ "$answer" = "noted $ordinal" ] || fail "the end is not noted: ${answer:-no answer from shards-0}"
echo "every shard of $HOSTNAME is on shards-0"

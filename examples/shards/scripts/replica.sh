#!/bin/sh
# A replica: creates eight shards on a new claim, keeps existing shards, and receives shards of other replicas.
#
# A shard is a file in /data/shards named ORDINAL-SHA256: the ordinal of the replica that created it, and the checksum of its content.
# A name therefore identifies one content, and any process with the file can verify that it is complete.
set -eu
# The first process of a container ignores signals without a trap.
trap exit TERM

ordinal=${HOSTNAME##*-}
mkdir -p /data/shards /data/incoming
# Incomplete files from before a restart were never confirmed, so their senders still have them.
rm -f /data/incoming/*

while [ "$(ls /data/shards | grep -c "^$ordinal-")" -lt 8 ]; do
  head -c 1048576 /dev/urandom > /data/incoming/new
  sum=$(sha256sum < /data/incoming/new)
  sync /data/incoming/new
  mv /data/incoming/new "/data/shards/$ordinal-${sum%% *}"
done
sync /data/shards

echo "$HOSTNAME holds $(ls /data/shards | wc -l) shards"
nc -ll -p 7000 -e /scripts/receive.sh &
wait

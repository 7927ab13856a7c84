#!/bin/sh
# A replica: makes eight shards of its own on a new claim, keeps those that it has, and takes in those of others.
#
# A shard is a file in /data/shards named ORDINAL-SHA256: the ordinal that made it, and the checksum of what is in it. So a
# name never stands for two contents, and everybody who has the file can tell whether it is whole.
set -eu
# The first process of a container ignores signals that it has no trap for.
trap exit TERM

ordinal=${HOSTNAME##*-}
mkdir -p /data/shards /data/incoming
# What was on its way when the replica ended was never confirmed: whoever sent it still has it.
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

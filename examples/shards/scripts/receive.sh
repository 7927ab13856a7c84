#!/bin/sh
# Answers one request; nc runs it for every connection. A request is a line, and for store the content of the shard:
#   store SHARD SIZE      "stored SHARD" when the shard is whole and on disk
#   finished ORDINAL ID   "noted ORDINAL" when the line is in /data/moved.log, where it stands once for each ID
# Both may be sent again: the second time changes nothing.
set -eu

refuse() {
  echo "refused: $*"
  echo "refused: $*" >&2
  exit 1
}

store() {
  incoming=/data/incoming/$1.$$
  trap 'rm -f "$incoming"' EXIT
  head -c "$2" > "$incoming" || refuse "no room for shard $1"
  sync "$incoming"
  sum=$(sha256sum < "$incoming")
  [ "${sum%% *}" = "${1#*-}" ] || refuse "what came of shard $1 has checksum ${sum%% *}"
  # A file gets its name when it is whole, so that nobody ever sees half a shard under a shard's name.
  mv "$incoming" "/data/shards/$1"
  sync /data/shards
  echo "stored $1"
}

finished() {
  grep -qsxF "$1 $2" /data/moved.log || echo "$1 $2" >> /data/moved.log
  sync /data/moved.log /data
  echo "noted $1"
}

# The readiness probe connects and says nothing.
read -r verb name argument || exit 0
# A name is part of a path here.
case $name in
  "" | *[!0-9a-f-]*) refuse "$name is no name" ;;
esac
case $verb in
  store | finished) "$verb" "$name" "$argument" ;;
  *) refuse "nobody knows how to $verb" ;;
esac

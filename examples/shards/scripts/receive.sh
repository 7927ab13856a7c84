#!/bin/sh
# Answers one request; nc runs it for each connection. A request is a line, followed by the content of the shard for store:
#   store SHARD SIZE      answers "stored SHARD" when the shard is complete and on disk
#   finished ORDINAL ID   answers "noted ORDINAL" when /data/moved.log has the line, once for each ID
# Sending a request again changes nothing.
set -eu

refuse() {
  echo "refused: $*"
  echo "refused: $*" >&2
  exit 1
}

store() {
  incoming=/data/incoming/$1.$$
  trap 'rm -f "$incoming"' EXIT
  head -c "$2" > "$incoming" || refuse "cannot write shard $1"
  sync "$incoming"
  sum=$(sha256sum < "$incoming")
  [ "${sum%% *}" = "${1#*-}" ] || refuse "the received shard $1 has checksum ${sum%% *}"
  # The file gets its final name when it is complete, so an incomplete shard never has a shard's name.
  mv "$incoming" "/data/shards/$1"
  sync /data/shards
  echo "stored $1"
}

finished() {
  grep -qsxF "$1 $2" /data/moved.log || echo "$1 $2" >> /data/moved.log
  sync /data/moved.log /data
  echo "noted $1"
}

# The readiness probe connects and sends nothing.
read -r verb name argument || exit 0
# The name becomes part of a path, so it must not contain other characters.
case $name in
  "" | *[!0-9a-f-]*) refuse "$name is not a valid name" ;;
esac
case $verb in
  store | finished) "$verb" "$name" "$argument" ;;
  *) refuse "unknown request $verb" ;;
esac

# The pre hook: stores every row of the removed members in member 0. It is safe to repeat.
set -eu
# The first process of a container ignores signals without a trap.
trap 'exit 1' TERM

# succeed writes the success message of the template, and ends the script.
succeed() {
  echo drained > /dev/termination-log
  exit 0
}

[ "$DRYDOCK_DIRECTION" = down ] || succeed
[ "$DRYDOCK_PAUSED" = false ] || succeed # a pause keeps the data, and the members start again
if [ "$DRYDOCK_DESIRED" = 0 ]; then
  echo "cannot drain the last member: no member would be left to store its rows; scale to at least 1"
  exit 1
fi
member() { echo "http://$DRYDOCK_SET-$1.$DRYDOCK_SET.$DRYDOCK_NAMESPACE.svc:8080"; }
for ordinal in $(echo "$DRYDOCK_REMOVED" | tr , ' '); do
  for row in $(wget -q -O - "$(member "$ordinal")/cgi-bin/list"); do
    content=$(wget -q -O - "$(member "$ordinal")/rows/$row")
    answer=$(wget -q -O - --post-data "$content" "$(member 0)/cgi-bin/put?$row")
    [ "$answer" = stored ] || { echo "member 0 did not store $row: $answer"; exit 1; }
  done
done
succeed

# Calls the address 25 times with pauses of 20 ms, prints the numbers of answered and failed calls, and repeats.
# wget -T crashes with a segmentation fault in Debian's static busybox, so timeout limits each call.
trap 'exit 0' TERM INT
while :; do
  answered=0 failed=0 n=0
  while [ $n -lt 25 ]; do
    n=$((n + 1))
    if timeout 2 wget -q -O /dev/null "$1"; then answered=$((answered + 1)); else failed=$((failed + 1)); fi
    usleep 20000
  done
  echo "$answered $failed"
done

# Fills the volume once: thousands of small files, links, odd names, a sparse file, and large files up to 88 % of the space that
# df reports. Then it serves the files on port 8080 and writes nothing more. Each volume gets other contents.
set -eu
umask 022
trap 'exit 0' TERM INT
cd /data

if [ ! -e filled ]; then
  i=0
  while [ $i -lt 3000 ]; do
    folder=small/$((i % 30))
    [ -d $folder ] || mkdir -p $folder
    lines=$((i % 9))
    {
      while [ $lines -gt 0 ]; do
        echo "$HOSTNAME, file $i, line $lines: the quick brown fox jumps over the lazy dog again and again and again"
        lines=$((lines - 1))
      done
    } > $folder/$i
    i=$((i + 1))
  done

  mkdir -p big links empty/folder
  : > empty/file
  truncate -s 8M sparse && echo "$HOSTNAME" >> sparse
  ln -sf ../big/1 links/relative
  ln -sf /data/small links/absolute
  ln -sf nowhere links/dangling
  ln -f small/1/1 links/hard
  ln -f small/2/2 'links/a name with blanks'
  chmod 600 small/3/* && chmod 755 small/4/4 && chmod 2750 small/5
  touch -d '2001-02-03 04:05:06' small/6/* small/7

  set -- $(df -Pk . | tail -n 1)
  kib=$((($2 * 88 / 100 - $3) / 3))
  [ $kib -le 65536 ] || kib=65536
  for i in 1 2 3; do head -c $((kib * 1024)) /dev/urandom > big/$i; done
  sync
  : > filled
fi

httpd -f -p 8080 -h /data &
trap 'kill $!; exit 0' TERM INT
wait $!

# A member: serves its rows by HTTP, and stores rows of other members.
set -eu
mkdir -p /data/rows /www/cgi-bin
if [ ! -e /data/filled ]; then
  for i in 1 2 3 4 5 6 7 8; do echo "row $i of $HOSTNAME" > "/data/rows/$HOSTNAME-$i"; done
  sync
  touch /data/filled
fi
ln -sfn /data/rows /www/rows
for script in list put; do
  cp "/scripts/$script.sh" "/www/cgi-bin/$script"
  chmod 755 "/www/cgi-bin/$script"
done
httpd -f -p 8080 -h /www &
trap 'kill $!; exit 0' TERM
wait $!

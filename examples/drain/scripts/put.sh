#!/bin/sh
# POST /cgi-bin/put?NAME: stores a row. Storing the same row again changes nothing.
printf 'Content-Type: text/plain\r\n\r\n'
case "$QUERY_STRING" in
'' | *[!0-9a-z-]*) echo "bad name"; exit ;;
esac
head -c "$CONTENT_LENGTH" > "/data/.$QUERY_STRING" && sync && mv "/data/.$QUERY_STRING" "/data/rows/$QUERY_STRING" && echo stored

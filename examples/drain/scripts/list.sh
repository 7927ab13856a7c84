#!/bin/sh
# GET /cgi-bin/list: prints the names of all rows.
printf 'Content-Type: text/plain\r\n\r\n'
ls /data/rows

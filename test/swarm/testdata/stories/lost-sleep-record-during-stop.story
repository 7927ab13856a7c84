# An operator stops pods one by one, and a tool removes the record of the sleep meanwhile.
world sets=1 owner=4 parallel cleanup
shows: replace web
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":2,"complete":true
shows: the operator sets web from 2 to 1
calm 1
paused web
source
deliver x2
operator 1
settle
replace web
source
deliver 3
operator 1
settle
source
deliver 3

# A tool removes the record of a sleep while an operator stops the pods, and no claim is deleted.
world sets=1 owner=3 ownsall parallel cleanup
shows: replace web
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":3,"complete":true
shows: the operator sets web from 3 to 0
calm
paused web
source
deliver x2
replace web
source
deliver 2
operator 1
settle
source
deliver 3

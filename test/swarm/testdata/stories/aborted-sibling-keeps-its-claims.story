# A sibling whose sleep is aborted keeps its claims.
world sets=2 owner=3 ownsall group parallel idle cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Failed Aborted
shows: the operator sets web from 3 to 0
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":3,"generation":2}
calm 2
sleep db
deliver
delay 0 2
deliver
abort web
source
deliver
source
deliver
release
operator 1
rush

# A tool removes the record of a sleep after idleness, and no claim is deleted.
world sets=1 owner=1 ownsall parallel idle cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Planned SleepDecided "nothing was active for 30m0s"
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":3,"complete":true
shows: the operator sets web from 3 to 0
calm 11
clock 4
tick
deliver x3
replace web
source
deliver 2
operator 1
settle
source
deliver 3

# A tool removes the record of a sleep after idleness, and no claim is deleted.
world sets=1 owner=1 ownsall parallel idle cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: replace web
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":0,"complete":true
calm 11
clock 4
calm 10
replace web
tick 9
slow 9 4
deliver 4

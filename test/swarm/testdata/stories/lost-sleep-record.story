# A tool removes the record of a sleep that an operator carried out, and no claim is deleted.
world sets=1 owner=3 ownsall parallel
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: replace web
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":0,"complete":true
cleanon web 4
paused web
resize web 3
calm 5
replace web
source 4
deliver 6
deliver 10
deliver

# A manifest replaces a sleeping set with a Scaler, and all annotations are lost. The set comes back as its Scaler wants, with all claims.
world sets=1 owner=0 cleanup scaler
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: put web
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":0,"complete":true
paused web
calm 3
put web
calm 3 x2

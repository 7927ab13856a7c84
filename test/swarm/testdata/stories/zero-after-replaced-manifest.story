# A manifest starts a stopped set and removes its annotations. A user scales it to zero before anything has seen that.
world sets=2 owner=0
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: put web 10
shows: scale(web): PATCH statefulsets/web add stop {"set":{"name":"web","uid":"statefulset-web-1"},"operation":"f981e9c090fd","kind":"Sleep","replicas":3,"stopped":"2000-01-01T00:01:00Z"}
paused web
calm 6 8
put web 10
scale web

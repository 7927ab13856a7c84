# A user starts a sleeping set and scales it to zero again. One function has seen the start, the other has not.
world sets=1 owner=0 idle
shows: idle-timeout(web): PATCH statefulsets/web add last-activity 2000-01-01T00:08:00Z; add sleep Sleep Waking StartedByOthers
shows: scale web 4
shows: scale(web): PATCH statefulsets/web add stop {"set":{"name":"web","uid":"statefulset-web-1"},"operation":"8e17f025a14f","kind":"Sleep","replicas":3,"stopped":"2000-01-01T00:05:00Z","started"
calm 7 10
sleep web 1
calm 2 9
scale web 10
sleep web 5
slow 8 7
scale web 4

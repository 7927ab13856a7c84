# A user starts a sleeping set, and a visit comes. The user scales it to zero before scale has seen the start.
world sets=1 owner=0 idle
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Waking StartedByOthers
shows: scale web 4
shows: scale(web): PATCH statefulsets/web add stop {"set":{"name":"web","uid":"statefulset-web-1"},"operation":"8e17f025a14f","kind":"Sleep","replicas":3,"stopped":"2000-01-01T00:05:00Z","started"
calm 3
sleep web 1
calm 3
scale web 10
activity web
deliver
scale web 4
calm 3 x2

# A manifest starts a stopped set and removes its annotations. A user scales it to zero before anything has seen that.
world sets=2 owner=0
ends with: in the end, set S has unwanted replicas: N, N ready, and its users want N
paused web
calm 6 8
put web 10
scale web

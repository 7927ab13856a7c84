# A manifest starts a stopped set and removes its annotations. A user scales it to zero before anything has seen that.
world sets=2 owner=0
paused web
calm 6 8
put web 10
scale web

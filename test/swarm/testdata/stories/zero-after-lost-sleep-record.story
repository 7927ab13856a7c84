# A tool removes the record of a waking set, its user scales it to zero, and the copy of the record starts it again.
world sets=1 owner=0 idle
shows: "started":"2000-01-01T00:03:00Z"}; add /spec/replicas 3
shows: scale web 0
shows: scale(web): PATCH statefulsets/web add stop
sleepat web
calm 1
activity web
deliver x3
replace web
scale web

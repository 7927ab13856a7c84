# A tool removes the record of a waking set, its user scales it to zero, and the copy of the record starts it again.
world sets=1 owner=0 idle
ends with: in the end, set S has unwanted replicas: N, N ready, and its users want N
sleepat web
calm 1
activity web
deliver
replace web
scale web

# A tool removes the record of a waking set, its user scales it to zero, and the copy of the record starts it again.
world sets=1 owner=0 idle
sleepat web
calm 1
activity web
deliver
replace web
scale web

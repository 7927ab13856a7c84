# A user scales a sleeping set, and the next sleep begins before the stop of the last one has ended.
world sets=1 owner=0 idle
sleep web
deliver x3
scale web 2
activity web
deliver
paused web
calm 3

# A user starts a sleeping set, and a visit comes. The user scales it to zero before scale has seen the start.
world sets=1 owner=0 idle
calm 3
sleep web 1
calm 3
scale web 10
activity web
deliver
scale web 4
calm 3 x2

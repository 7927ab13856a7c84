# A user starts a sleeping set and scales it to zero again. One function has seen the start, the other has not.
world sets=1 owner=0 idle
calm 7 10
sleep web 1
calm 2 9
scale web 10
sleep web 5
slow 8 7
scale web 4

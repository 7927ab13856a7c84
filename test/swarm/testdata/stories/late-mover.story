# A slow process creates the Job of a mover after its resize has ended. The Job goes.
world sets=1 owner=0 parallel
resize web 8
delay 0 7
rush x2
approve web 8
delay 1 5
rush
release 11 2
settle 0 11
calm 8 1

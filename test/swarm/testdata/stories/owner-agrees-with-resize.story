# the owner stays paused after the copy, until its user writes the new size into it
world sets=1 owner=2
resize web 2
rush
clock 1
calm 3 x3
ownersize web 1
calm 3

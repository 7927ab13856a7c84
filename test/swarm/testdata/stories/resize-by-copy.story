# A resize copies all volumes to another class, a rollback restores the old ones, and the members have their data.
world sets=1 owner=0 parallel
resize web 2
calm 3
clock 2
calm 3
rollback web
calm 3
clock 2
calm 3

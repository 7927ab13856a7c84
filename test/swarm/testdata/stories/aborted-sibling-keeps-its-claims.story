# A sibling whose sleep is aborted keeps its claims.
world sets=2 owner=3 ownsall parallel cleanup
calm 2
paused web
paused db
source 6
abort db
deliver
deliver 7
deliver 1
deliver 3
calm 3

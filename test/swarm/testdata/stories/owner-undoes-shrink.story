# the owner never gets the new size, so its operator creates the set again a day after the resize
world sets=1 owner=2 parallel cleanup
resize web 2
rush
calm 3 x3

# two sets with one size in their owner get the same size, and only then Drydock writes it
world sets=2 owner=2 ownsall
ownerpolicy web
ownerpolicy db
resize web
rush
clock 3
rush
calm 3 x2
resize db
rush
clock 3
rush
calm 3

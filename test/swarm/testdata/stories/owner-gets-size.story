# Drydock writes the new size into the owner
world sets=1 owner=2
resize web
ownerpolicy web
rush
clock 3
rush
calm 3

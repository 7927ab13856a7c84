# The storage has no room to grow volumes, so the resize fails. A retry grows them when there is room.
world sets=1 owner=0
full
resize web
calm 3
room
retry web
calm 3

# The storage has no room to grow volumes, so the resize fails. A retry grows them when there is room.
world sets=1 owner=0
shows: detect-resize(web): PATCH statefulsets/web add status Resize Failed ExpandInfeasible
shows: detect-resize(web): PATCH statefulsets/web add status Resize Expanding ResizeDetected "3 claims will grow on their volumes"; remove retry
full
resize web
calm 3
room
retry web
calm 3

# A resize copies all volumes to another class, a rollback restores the old ones, and the members have their data.
world sets=1 owner=0 parallel
shows: restore(web): PATCH statefulsets/web add status Resize Succeeded ResizeCompleted
shows: detect-resize(web): PATCH statefulsets/web add status Rollback Planned
shows: restore(web): PATCH statefulsets/web add status Rollback Succeeded ResizeCompleted
resize web 2
calm 3
clock 2
calm 3
rollback web
calm 3
clock 2
calm 3

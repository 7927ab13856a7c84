# two sets with one size in their owner get the same size, and only then Drydock writes it
world sets=2 owner=2 ownsall
shows: restore(web): PATCH statefulsets/web add status Resize Succeeded ResizeCompleted
shows: pause-owner(web): PATCH controllerrevisions/
shows: restore(db): PATCH statefulsets/db add status Resize Succeeded ResizeCompleted
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

# A slow process creates the Job of a mover after its resize has ended. The Job goes.
world sets=1 owner=0 parallel
shows: restore(web): DELETE jobs/drydock-1f7bf6c63377-0-1
shows: restore(web): PATCH statefulsets/web add status Resize Succeeded ResizeCompleted
shows: backup(web): POST jobs/
resize web 8
delay 0 7
rush x2
approve web 8
delay 1 5
rush
release 11 2
settle 0 11
tick
rush
release
calm 1

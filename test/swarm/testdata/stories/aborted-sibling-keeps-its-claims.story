# A sibling whose sleep is aborted keeps its claims.
world sets=2 owner=3 ownsall group parallel cleanup
shows: pause-owner(db): PATCH perconaxtradbclusters/own add /spec/pause true
shows: the operator sets web from 3 to 0
shows: idle-timeout(web): PATCH statefulsets/web remove abort
calm 2
paused web
paused db
source
deliver
delay 0 2
deliver x2
abort web
release
operator 1
settle
source
deliver x4

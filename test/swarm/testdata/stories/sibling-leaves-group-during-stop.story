# A set leaves its group while its operator stops the first of its pods.
world sets=2 owner=4 ownsall group parallel cleanup
shows: pause-owner(db): PATCH perconaxtradbclusters/own add /spec/pause true
shows: group db
shows: the operator sets db from 3 to 2
calm 1
paused web
paused db
source
deliver x2
source
deliver
group db
operator 1
settle

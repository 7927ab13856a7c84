# The retention policy of the user is restored while an operator stops the set for its next sleep.
world sets=1 owner=1 delete idle
shows: add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Retain
shows: pause-owner(web): PATCH postgresclusters/own add /spec/shutdown true
shows: the operator sets web from 3 to 0
ownerpause web 1
sleep web
deliver x4
activity web
deliver x4
settle
source
deliver
ownerpause web
paused web
source
deliver x5
operator 1

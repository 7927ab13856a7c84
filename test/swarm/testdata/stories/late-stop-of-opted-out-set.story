# the stop of the owner is late, and its user has opted the set out meanwhile
world sets=1 owner=3 idle
shows: pause-owner(web) is held before PATCH perconaxtradbclusters/own
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Waking WakingUp "the set is no longer opted in"
shows: pause-owner(web): PATCH perconaxtradbclusters/own add /spec/pause true
sleepat web
delay 0 2
rush
optout web
rush

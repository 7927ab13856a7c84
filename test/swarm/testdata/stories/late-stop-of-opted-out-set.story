# the stop of the owner is late, and its user has opted the set out meanwhile
world sets=1 owner=3 idle
sleepat web
delay 0 2
rush
optout web
rush

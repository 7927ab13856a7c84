# A set is opted out while its sibling falls asleep, and the operator stops it, too.
world sets=2 owner=3 ownsall group parallel idle
paused web
paused db
source
deliver x2
source
optout db
clock
deliver x3
operator 1

# A set is opted out while its sibling falls asleep, and the operator stops it, too.
world sets=2 owner=3 ownsall group parallel idle
shows: idle-timeout(db): PATCH statefulsets/db add sleep Sleep Planned
shows: optout db
shows: pause-owner(web): PATCH statefulsets/web add sleep Sleep Refused OwnerNotPausable
paused web
paused db
source
deliver x2
source
optout db
clock
deliver x3
operator 1

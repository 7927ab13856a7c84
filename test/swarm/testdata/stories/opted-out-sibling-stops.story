# A set is opted out, no event says so, and the operator stops it for the sleep of its sibling.
world sets=2 owner=3 ownsall group parallel idle cleanondelete
source
paused db
deliver 10
optout db
blind

# A set is opted out, no event says so, and the operator stops it for the sleep of its sibling.
world sets=2 owner=3 ownsall group parallel idle cleanondelete
ends with: Drydock lets the operator stop set S, which is opted out
source
paused db
deliver 10
optout db
blind

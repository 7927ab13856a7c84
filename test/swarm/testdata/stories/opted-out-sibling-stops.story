# A set is opted out, no event says so, and the operator stops it for the sleep of its sibling.
world sets=2 owner=3 ownsall group parallel idle cleanondelete
shows: idle-timeout(db): PATCH statefulsets/db add sleep Sleep Planned
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Planned
shows: idle-timeout(db): PATCH statefulsets/db add last-activity
source
paused db
deliver 10
optout db
blind

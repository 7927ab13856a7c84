# A set is restored from a backup of its sleep. It stays at zero until its user scales it.
world sets=1 owner=0
shows: scale(web): PATCH statefulsets/web add stop
shows: restored web
paused web
rush
backup web
delete web 5
rush
restored web

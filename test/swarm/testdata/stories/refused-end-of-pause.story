# An operator resumes its set, but a webhook keeps the record of the pause. Drydock says so once, and tries again once a minute.
world sets=1 owner=3
shows: pause-owner(web): PATCH perconaxtradbclusters/own remove /spec/pause
shows: a webhook refuses pause-owner(web): DELETE controllerrevisions/
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
paused web
rush x2
refuse 3
unpaused web
rush
calm 4

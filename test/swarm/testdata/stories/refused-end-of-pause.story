# An operator resumes its set, but a webhook keeps the record of the pause. Drydock says so once, and tries again once a minute.
world sets=1 owner=3
paused web
rush x2
refuse 3
unpaused web
rush
calm 4

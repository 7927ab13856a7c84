# A set that ignores its operator wakes while the operator stops all its sets for the sleep of another. Its claims stay.
world sets=3 owner=4 ownsall group
ownerpolicy web 7
paused web 8
paused mq 8
paused db 1
rush
delete db 1
refuseset 5 10
policy web 7

# A user edits an owner that is stopped, a second set stops it again, and the edit is lost.
world sets=2 owner=5 ownsall group parallel
paused web
paused db
source
deliver
source
deliver x3
owner web 1
tick
deliver x4

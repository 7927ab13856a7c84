# A user edits an owner that is stopped, a second set stops it again, and the edit is lost.
world sets=2 owner=5 ownsall group parallel
shows: pause-owner(db): PATCH infinispans/own add /spec/replicas 0
shows: owner web 1
shows: pause-owner(web): PATCH infinispans/own add /spec/replicas 0
paused web
paused db
source
deliver
source
deliver x3
owner web 1
tick
deliver x4

# A set that ignores its operator wakes while the operator stops all its sets for the sleep of another. Its claims stay.
world sets=3 owner=4 ownsall group
shows: idle-timeout(db): PATCH statefulsets/web add sleep Sleep Planned
shows: pause-owner(db): PATCH statefulsets/db add sleep Sleep Refused OwnerNotPausable "PerconaXtraDBCluster own controls StatefulSet db and cannot be paused: its operator can only stop all its sets, and StatefulSet web has the annotation
shows: idle-timeout(web): PATCH statefulsets/web add last-activity 2000-01-01T00:01:00Z; add sleep Sleep Waking
ownerpolicy web 7
paused web 8
paused mq 8
paused db 1
rush
delete db 1
refuseset 5 10
policy web 7

# A set that was deleted and created again during a sleep with a Scaler wakes up.
world sets=1 owner=0 parallel idle scaler
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: delete web
shows: kubectl-edit creates set web with 1 replicas
calm
sleep web 4
calm 7
delete web

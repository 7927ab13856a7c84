# A visit ends a sleep, a user scales to zero, and the record of the stop arrives. The process dies before the stop.
world sets=1 owner=0 idle
shows: scale(web) is held before POST controllerrevisions/
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
shows: scale(web) dies before PATCH statefulsets/web
sleep web
deliver x2
slow 1 1
activity web
deliver
source
deliver
scale web
release
drop
calm 3

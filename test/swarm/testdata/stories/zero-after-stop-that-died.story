# A process dies between the record of a stop and the stop. A visit ends the sleep, and a user scales to zero.
world sets=1 owner=0 idle
shows: scale(web) is held before PATCH statefulsets/web
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
shows: scale(web) dies before PATCH statefulsets/web
settle
sleep web
deliver x2
slow 1 4
activity web
deliver
source
deliver
drop
scale web
calm 3

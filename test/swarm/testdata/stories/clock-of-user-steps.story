# A user whose clock is two hours ahead asks for a sleep. It begins two hours later, after a use with a clock that is behind.
world sets=1 owner=0 parallel idle
shows: activity web
shows: 3h9m0s   idle-timeout(web): PATCH statefulsets/web add sleep Sleep Planned SleepDecided "a sleep was requested"
step 3
sleepat web
calm 3
step
activity web
calm 3
clock 6
calm 3

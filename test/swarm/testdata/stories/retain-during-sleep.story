# A user wants to retain claims during a sleep, and the wake-up writes Delete again.
world sets=1 owner=0 parallel delete idle
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep FellAsleep
shows: policy web 4
shows: "whenScaled":"Delete"}
calm 7
clock 5
calm 1
policy web 1
calm 1
policy web 4

# A user wants to retain claims during a sleep, and the wake-up writes Delete again.
world sets=1 owner=0 parallel delete idle
calm 7
clock 5
calm 1
replace web
policy web 4

# A user wants to retain claims during a sleep, and the wake-up writes Delete again.
world sets=1 owner=0 parallel delete idle
ends with: in the end, whenScaled of set S is Delete, and its users want Retain
calm 7
clock 5
calm 1
replace web
policy web 4

# An operator stops pods one by one, and a tool removes the record of the sleep meanwhile.
world sets=1 owner=4 parallel cleanup
calm 1
paused web
source
deliver
source
deliver
operator 1
settle
replace web

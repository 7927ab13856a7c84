# The retention policy of the user is restored while an operator stops the set for its next sleep.
world sets=1 owner=1 delete idle
ownerpause web 1
sleep web
deliver x4
activity web
deliver x4
settle
source
deliver
ownerpause web
paused web
source
deliver x5
operator 1

# Two operators stop their sets for a sleep and start them again. The second one does so one pod after the other.
world sets=2 owner=3 twoowners parallel cleanup
shows: the operator sets web from 3 to 0
shows: the operator sets db from 3 to 2
shows: the operator sets db from 0 to 1
paused db
paused web
calm 3 x2
unpaused db
unpaused web
calm 3

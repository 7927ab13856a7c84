# The pause of the owner arrives after the sleep has ended, and nobody ends it.
world sets=1 owner=2 ownsall parallel
paused web
source
deliver
slow 0 1
release
unpaused web
source
deliver x4

# whenScaled Delete, written while the set stops, is refused until its pods have ended.
world sets=1 owner=0 ownsall parallel
paused web
source
deliver
source
deliver
source
deliver x3
policy web 1
settle

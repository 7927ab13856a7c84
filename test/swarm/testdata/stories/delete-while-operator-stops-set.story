# whenScaled Delete, written while an operator stops the set, is refused until its pods have ended.
world sets=1 owner=1 ownsall parallel idle
policy web 8
calm 3
sleepat web
tick 6
deliver 5
deliver 11
policy web 9

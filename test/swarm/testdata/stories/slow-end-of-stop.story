# A slow process ends a stop, and deletes the record of the next stop. A tool then removes the annotations.
world sets=1 owner=0 idle
shows: scale(web) is held before GET controllerrevisions/
shows: scale(web): POST controllerrevisions/
shows: scale(web): PATCH statefulsets/web add stop
sleepat web
calm 3
activity web
deliver x3
settle
source
deliver
source
slow 1 6
paused web
source
deliver x8
replace web

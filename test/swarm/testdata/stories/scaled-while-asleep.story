# A user scales a sleeping set, and the next sleep begins before the stop of the last one has ended.
world sets=1 owner=0 idle
shows: scale web 2
shows: pause-owner(web): PATCH statefulsets/web add sleep Sleep Stopping OwnerConsents
shows: scale(web): DELETE controllerrevisions/drydock-f981e9c090fd-stop
sleep web
deliver x4
settle
activity web
deliver
scale web 2
settle
source
deliver
paused web
calm 3

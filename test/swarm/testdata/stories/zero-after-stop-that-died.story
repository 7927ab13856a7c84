# A process dies between the record of a stop and the stop. A visit ends the sleep, and a user scales to zero.
world sets=1 owner=0 idle
settle
sleep web
deliver x2
slow 0 4
activity web
deliver
source
deliver
drop
scale web
calm 3

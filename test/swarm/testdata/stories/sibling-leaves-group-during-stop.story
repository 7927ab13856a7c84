# A set leaves its group while its operator stops the first of its pods.
world sets=2 owner=4 ownsall group parallel cleanup
calm 1
paused web
paused db
source
deliver x2
source
deliver
group db
operator 1
settle

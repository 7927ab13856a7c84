# The stop by the owner arrives after the sleep has ended, and the set stays at zero. Its claims stay, too.
world sets=1 owner=3 ownsall parallel cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
shows: pause-owner(web): PATCH perconaxtradbclusters/own add /spec/pause true
calm
paused web
source
deliver
slow 0 1
release x2
unpaused web
source
deliver x4
source
deliver x3

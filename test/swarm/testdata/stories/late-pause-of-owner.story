# The pause of the owner arrives after the sleep has ended, and nobody ends it.
world sets=1 owner=2 ownsall parallel
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
shows: pause-owner(web): PATCH rabbitmqclusters/own add /metadata/labels/rabbitmq.com~1pauseReconciliation true
shows: pause-owner(web) dies before PATCH rabbitmqclusters/own
paused web
source
deliver
slow 0 1
release
unpaused web
source
deliver x4
source
deliver x3
release
drop

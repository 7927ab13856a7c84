# A user writes another size into the owner while it is paused for a resize. Drydock is to change the owner, but keeps the edit.
world sets=1 owner=2
shows: pause-owner(web): PATCH rabbitmqclusters/own add /metadata/labels/rabbitmq.com~1pauseReconciliation true
shows: ownersize web 2
shows: add disagrees-since
ownerpolicy web
resize web 2
source
deliver x8
source
deliver x8
source
deliver x8
ownersize web 2
rush
clock 3
rush
calm 3

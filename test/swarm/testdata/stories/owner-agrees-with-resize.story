# the owner stays paused after the copy, until its user writes the new size into it
world sets=1 owner=2
shows: restore(web): PATCH statefulsets/web add status Resize Succeeded ResizeCompleted
shows: ownersize web 1
shows: pause-owner(web): PATCH rabbitmqclusters/own remove /metadata/labels/rabbitmq.com~1pauseReconciliation
resize web 2
rush
clock 1
calm 3 x3
ownersize web 1
calm 3
